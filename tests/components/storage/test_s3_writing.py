"""Writing to S3 at its worst, at the wire: every answer it can give or lose, and what becomes of the object."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from components.errors import BadInput, Transient
from components.storage.base import AlreadyExists
from components.storage.patience import Patience
from components.storage.s3 import S3Store
from tests.fakes.s3_proxy import Fault, S3Proxy
from tests.fakes.s3_server import ROOT, S3Server

BURST = [Fault(status=500, code="InternalError"), Fault(status=503, code="SlowDown"), Fault(status=502)]


@pytest.mark.parametrize(
    "fault",
    [
        Fault(method="PUT", status=500, code="InternalError"),
        Fault(method="PUT", status=500, code="InternalError", after=True),
        Fault(method="PUT", status=503, code="SlowDown"),
        Fault(method="PUT", status=503, code="SlowDown", after=True),
        Fault(method="PUT", status=502, after=True),
        Fault(method="PUT", cut=True),
        Fault(method="PUT", cut=True, after=True),
        Fault(method="PUT", stall_seconds=1.0, cut=True),
        Fault(method="PUT", stall_seconds=1.0, after=True),
    ],
    ids=["500", "500-done", "503", "503-done", "502-done", "cut", "cut-done", "timeout", "timeout-done"],
)
def test_a_create_whose_answer_says_nothing_ends_with_the_object_there_once(
    proxied_store: S3Store, s3_proxy: S3Proxy, fault: Fault
) -> None:
    s3_proxy.misbehave(fault)

    proxied_store.create("log/1", b"record")

    assert proxied_store.read("log/1") == b"record"
    with pytest.raises(AlreadyExists):
        proxied_store.create("log/1", b"record")


@pytest.mark.parametrize("fault", [{"status": 500, "code": "InternalError"}, {"cut": True}])
def test_when_the_answer_is_lost_and_another_writer_won_the_loser_is_told(
    proxied_store: S3Store, s3_server: S3Server, s3_proxy: S3Proxy, fault: dict[str, object]
) -> None:
    rival = S3Store(proxied_store._place, s3_server.client)
    rival.create("log/1", b"theirs")
    s3_proxy.misbehave(Fault(method="PUT", **fault))  # type: ignore[arg-type]

    with pytest.raises(AlreadyExists):
        proxied_store.create("log/1", b"ours!!")
    assert proxied_store.read("log/1") == b"theirs"


def test_an_equal_object_found_after_a_lost_answer_is_success(
    proxied_store: S3Store, s3_server: S3Server, s3_proxy: S3Proxy, tmp_path: Path
) -> None:
    (tmp_path / "shard").write_bytes(b"shard" * 1000)
    S3Store(proxied_store._place, s3_server.client).create("shard", b"shard" * 1000)
    s3_proxy.misbehave(Fault(method="PUT", cut=True))

    proxied_store.create_from("shard", tmp_path / "shard")


def test_equality_is_found_by_reading_when_the_store_keeps_no_checksum(
    proxied_store: S3Store, s3_proxy: S3Proxy
) -> None:
    hidden = Fault(without_headers=("x-amz-checksum-sha256", "x-amz-checksum-type"))
    for data, expected in ((b"equal", None), (b"other", AlreadyExists)):
        key = f"blind/{data.decode()}"
        s3_proxy.always = lambda method, path: hidden if method == "HEAD" else None
        proxied_store.create(key, data)
        s3_proxy.misbehave(Fault(method="PUT", cut=True))
        if expected is None:
            proxied_store.create(key, b"equal")
        else:
            with pytest.raises(expected):
                proxied_store.create(key, b"equal")


def test_a_store_that_asks_to_be_spared_is_spared(s3_server: S3Server, s3_proxy: S3Proxy) -> None:
    pauses: list[float] = []
    patience = Patience(pause=pauses.append, chance=lambda: 0.0)
    client = s3_server.client_of(s3_proxy.endpoint)
    store = s3_server.new_store(client=client, patience=patience)
    s3_proxy.misbehave(
        Fault(method="PUT", status=500, code="InternalError"),
        Fault(method="PUT", status=503, code="SlowDown"),
        Fault(method="PUT", status=429, code="TooManyRequests", headers={"Retry-After": "7"}),
    )
    store.create("a", b"1")

    assert pauses == [0.0, 1.0, 7.0]
    client.close()


def test_a_conflict_is_tried_again_and_is_no_defeat(proxied_store: S3Store, s3_proxy: S3Proxy) -> None:
    s3_proxy.misbehave(Fault(method="PUT", status=409, code="ConditionalRequestConflict"))

    proxied_store.create("a", b"1")

    assert proxied_store.read("a") == b"1"
    assert s3_proxy.count("HEAD") == 0  # nothing was in doubt


def test_a_conflict_lost_to_another_is_a_defeat(proxied_store: S3Store, s3_server: S3Server, s3_proxy: S3Proxy) -> None:
    S3Store(proxied_store._place, s3_server.client).create("a", b"1")
    s3_proxy.misbehave(Fault(method="PUT", status=409, code="ConditionalRequestConflict"))

    with pytest.raises(AlreadyExists):
        proxied_store.create("a", b"1")


def test_an_answer_that_comes_after_all_tries_is_not_known_and_said_so(s3_server: S3Server, s3_proxy: S3Proxy) -> None:
    s3_proxy.always = lambda method, path: Fault(status=503, code="SlowDown", after=method == "PUT")
    client = s3_server.client_of(s3_proxy.endpoint)
    store = s3_server.new_store(client=client, patience=Patience(total_seconds=0.2, first_pause_seconds=0.01))

    with pytest.raises(Transient, match=r"cannot read s3://t-\w+/log/1: 503.*asked \d+ times"):
        store.create("log/1", b"record")
    s3_proxy.always = lambda method, path: None
    with pytest.raises(AlreadyExists):
        store.create("log/1", b"record")  # whose it is, the caller can tell by what it holds
    client.close()


def test_a_store_that_refuses_what_it_does_not_show_is_given_up_on(proxied_store: S3Store, s3_proxy: S3Proxy) -> None:
    s3_proxy.misbehave(Fault(method="PUT", cut=True))
    s3_proxy.always = lambda method, path: (
        Fault(status=412, code="PreconditionFailed")
        if method == "PUT"
        else Fault(status=404)
        if method == "HEAD"
        else None
    )

    with pytest.raises(Transient, match="exists for writing, but not for reading"):
        proxied_store.create("log/1", b"record")


def test_a_body_damaged_on_its_way_is_sent_again(proxied_store: S3Store, s3_proxy: S3Proxy) -> None:
    s3_proxy.misbehave(Fault(method="PUT", status=400, code="BadDigest"))

    proxied_store.create("a", b"1")

    assert s3_proxy.count("PUT") == 2


def test_replace_and_delete_are_repeated_until_they_are_answered(proxied_store: S3Store, s3_proxy: S3Proxy) -> None:
    for fault in (*BURST, Fault(cut=True), Fault(cut=True, after=True)):
        s3_proxy.misbehave(fault)
        proxied_store.replace("state", b"1")
    s3_proxy.misbehave(*BURST, Fault(cut=True, after=True))
    proxied_store.delete("state")

    assert proxied_store.find("state") is None


def test_a_file_that_changes_while_it_is_sent_is_refused_and_nothing_is_published(
    proxied_store: S3Store, s3_proxy: S3Proxy, tmp_path: Path
) -> None:
    source = tmp_path / "model"
    source.write_bytes(b"x" * 200_000)

    def edit(method: str, path: str) -> Fault | None:
        if method == "PUT":
            source.write_bytes(b"y" * 100_000)
            return Fault(status=503, code="SlowDown")
        return None

    s3_proxy.always = edit
    with pytest.raises(BadInput, match=r"SourceChanged: .*/model changed while it was being uploaded"):
        proxied_store.create_from("model", source)
    s3_proxy.always = lambda method, path: None
    assert proxied_store.find("model") is None


def test_a_file_larger_than_an_object_may_be_is_refused_before_anything_is_read(
    s3_store: S3Store, tmp_path: Path
) -> None:
    with (tmp_path / "huge").open("wb") as file:
        file.truncate((5 << 30) + 1)

    with pytest.raises(
        BadInput, match=r"ObjectTooLarge: .*/huge has 5368709121 bytes; an object holds at most 5368709120"
    ):
        s3_store.create_from("huge", tmp_path / "huge")


def test_a_file_is_sent_in_bounded_memory(s3_server: S3Server, tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(96 << 20)
    program = (
        "import sys, hashlib; from pathlib import Path; from components.storage.base import open_store\n"
        "store = open_store(sys.argv[1]); store.create('warm', b'x')\n"
        "peak = lambda: int(open('/proc/self/status').read().split('VmHWM:')[1].split()[0])\n"
        "before = peak(); print(store.create_from('large', Path(sys.argv[2])))\n"
        "with store.open('large') as stream: print(hashlib.file_digest(stream, 'sha256').hexdigest())\n"
        "print(peak() - before < 12 * 1024)"
    )

    printed = subprocess.run(
        [sys.executable, "-c", program, f"s3://{s3_server.new_bucket()}", str(tmp_path / "large")],
        env={**s3_server.environment, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip

    assert printed[0] == printed[1]
    assert printed[2] == "True"


def test_a_writer_killed_at_any_moment_leaves_whole_objects_only(s3_server: S3Server) -> None:
    program = (
        "import sys, threading; from components.storage.base import open_store\n"
        "store = open_store(sys.argv[1]); number = 0\n"
        "while True: store.create(f'objects/{number}', b'x' * 1_000_000); number += 1; print(number, flush=True)"
    )
    for delay in (0.0, 0.01, 0.02):
        store = s3_server.new_store()
        writer = subprocess.Popen(
            [sys.executable, "-c", program, store.uri],
            env={**s3_server.environment, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE,
        )  # fmt: skip
        assert writer.stdout is not None
        writer.stdout.readline()
        time.sleep(delay)
        writer.kill()
        writer.communicate()
        time.sleep(0.05)

        assert {item.size_bytes for item in store.list("objects")} == {1_000_000}
