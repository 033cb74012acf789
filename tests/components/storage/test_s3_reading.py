"""Reading from S3 at its worst: failures in bursts, cut, slow and damaged bodies, objects that change meanwhile."""

import hashlib
import os
import signal
import threading

import pytest

from components.errors import Interrupted, Transient
from components.storage.base import ObjectNotFound, StorageError
from components.storage.s3 import S3Store
from tests.fakes.s3_proxy import Fault, S3Proxy
from tests.fakes.s3_server import S3Server

BURST = [Fault(status=500, code="InternalError"), Fault(status=503, code="SlowDown"), Fault(status=502)]


def test_reads_survive_a_burst_of_failures(proxied_store: S3Store, s3_proxy: S3Proxy) -> None:
    proxied_store.create("a/b", b"12345")
    for look in (
        lambda: proxied_store.read("a/b") == b"12345",
        lambda: proxied_store.open("a/b").read() == b"12345",
        lambda: proxied_store.find("a/b") is not None,
        lambda: [item.key for item in proxied_store.list("a")] == ["a/b"],
    ):
        s3_proxy.misbehave(*BURST, Fault(cut=True), Fault(stall_seconds=0.7))
        assert look()


def test_a_body_cut_again_and_again_is_read_to_its_end(proxied_store: S3Store, s3_proxy: S3Proxy) -> None:
    data = os.urandom(3_000_000)
    proxied_store.create("data", data)
    s3_proxy.misbehave(
        Fault(method="GET", body_bytes=1_000_000),
        Fault(method="GET", body_bytes=0),
        Fault(status=503, code="SlowDown"),
        Fault(method="GET", body_bytes=10),
        Fault(method="GET", cut=True),
    )

    with proxied_store.open("data") as stream:
        assert hashlib.file_digest(stream, "sha256").digest() == hashlib.sha256(data).digest()  # type: ignore[arg-type]


def test_a_document_cut_short_is_read_again(proxied_store: S3Store, s3_proxy: S3Proxy) -> None:
    proxied_store.create("report.json", b'{"loss": 1}')
    s3_proxy.misbehave(Fault(method="GET", body_bytes=4), Fault(method="GET", body_bytes=0))

    assert proxied_store.read("report.json") == b'{"loss": 1}'


def test_a_document_damaged_on_its_way_is_read_again(proxied_store: S3Store, s3_proxy: S3Proxy) -> None:
    proxied_store.create("report.json", b'{"loss": 1}')
    s3_proxy.misbehave(Fault(method="GET", flip=True))

    assert proxied_store.read("report.json") == b'{"loss": 1}'


def test_a_slow_body_is_waited_for_while_it_moves(proxied_store: S3Store, s3_proxy: S3Proxy) -> None:
    proxied_store.create("data", bytes(1_000_000))
    s3_proxy.misbehave(Fault(method="GET", drip_bytes=2_000))

    with proxied_store.open("data") as stream:
        assert len(stream.read()) == 1_000_000


def test_a_stream_never_mixes_two_versions(proxied_store: S3Store, s3_proxy: S3Proxy) -> None:
    proxied_store.replace("state", b"a" * 600_000)
    s3_proxy.misbehave(Fault(method="GET", body_bytes=300_000))

    with proxied_store.open("state") as stream:
        assert stream.read(1000) == b"a" * 1000
        proxied_store.replace("state", b"b" * 600_000)
        with pytest.raises(Transient, match="state changed while it was being read"):
            stream.read()


def test_a_stream_says_when_its_object_is_gone(proxied_store: S3Store, s3_proxy: S3Proxy) -> None:
    proxied_store.create("data", bytes(600_000))
    s3_proxy.misbehave(Fault(method="GET", body_bytes=300_000))

    with proxied_store.open("data") as stream:
        proxied_store.delete("data")
        with pytest.raises(ObjectNotFound, match="data does not exist"):
            stream.read()


def test_a_store_without_ranges_is_refused_rather_than_read_twice(proxied_store: S3Store, s3_proxy: S3Proxy) -> None:
    proxied_store.create("data", bytes(600_000))
    s3_proxy.misbehave(Fault(method="GET", body_bytes=300_000))
    with proxied_store.open("data") as stream:
        s3_proxy.always = lambda method, path: Fault(without_headers=("content-range",))
        with pytest.raises(StorageError, match="the store ignores Range"):
            stream.read()


def test_a_stream_that_never_ends_well_is_given_up_on(proxied_store: S3Store, s3_proxy: S3Proxy) -> None:
    proxied_store.create("data", bytes(600_000))
    with proxied_store.open("data") as stream:
        s3_proxy.always = lambda method, path: Fault(body_bytes=0)
        s3_proxy.misbehave()
        stream.read(300_000)
        stream.read()
    s3_proxy.always = lambda method, path: Fault(body_bytes=0)
    with proxied_store.open("data") as stream, pytest.raises(Transient, match=r"asked .* times"):
        stream.read()


def test_a_signal_that_raises_is_not_mistaken_for_a_broken_connection(
    proxied_store: S3Store, s3_proxy: S3Proxy
) -> None:
    def interrupt(signum: int, frame: object) -> None:
        raise Interrupted("Interrupted", "SIGTERM without a stop request")

    s3_proxy.always = lambda method, path: Fault(stall_seconds=0.4)
    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        for look in (proxied_store.read, proxied_store.find, lambda key: proxied_store.create(key, b"")):
            timer = threading.Timer(0.15, os.kill, (os.getpid(), signal.SIGUSR1))
            timer.start()
            with pytest.raises(Interrupted):
                look("a")
            timer.join()
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_listings_of_several_pages_are_whole_and_survive_failures(
    proxied_store: S3Store, s3_server: S3Server, s3_proxy: S3Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [f"many/{number:04}" for number in range(25)]
    for key in keys:
        proxied_store.create(key, b"")
    whole = proxied_store._client.list_objects_v2
    monkeypatch.setattr(proxied_store._client, "list_objects_v2", lambda **asked: whole(**asked, MaxKeys=4))
    s3_proxy.misbehave(Fault(), Fault(status=503, code="SlowDown"), Fault(cut=True))

    assert [item.key for item in proxied_store.list("many")] == keys


def test_a_listing_begins_after_a_key_even_where_the_store_does_not_know_how(
    s3_store: S3Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in ("x/a", "x/b", "x/c"):
        s3_store.create(key, b"")
    whole = s3_store._client.list_objects_v2
    monkeypatch.setattr(s3_store._client, "list_objects_v2", lambda StartAfter, **asked: whole(**asked))  # noqa: N803

    assert [item.key for item in s3_store.list("x", after="x/a")] == ["x/b", "x/c"]


def test_marks_that_consoles_make_for_folders_are_no_objects(s3_store: S3Store) -> None:
    s3_store._client.put_object(Bucket=s3_store._place.bucket, Key="team/argosy/x/sub/", Body=b"")
    s3_store.create("x/a", b"")

    assert [item.key for item in s3_store.list("x")] == ["x/a"]
