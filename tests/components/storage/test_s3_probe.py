"""Stores that take a conditional write and do not mean it are found out."""

from urllib.parse import unquote

from components.storage.probe import probe_conditional_writes
from components.storage.s3 import S3Store
from tests.fakes.s3_proxy import Fault, S3Proxy
from tests.fakes.s3_server import S3Server


def test_a_store_where_the_last_writer_wins_is_found_out(
    proxied_store: S3Store, s3_proxy: S3Proxy, s3_server: S3Server
) -> None:
    def forget(method: str, path: str) -> None:
        bucket, _, key = unquote(path.split("?")[0]).strip("/").partition("/")
        if method == "PUT":
            s3_server.client.delete_object(Bucket=bucket, Key=key)  # so the condition always holds

    s3_proxy.always = forget  # type: ignore[assignment]

    assert probe_conditional_writes(proxied_store, folder="probes") == "a second create of the same object succeeded"
    assert list(proxied_store.list("probes")) == []


def test_a_store_where_every_racer_wins_is_found_out(proxied_store: S3Store, s3_proxy: S3Proxy) -> None:
    s3_proxy.always = lambda method, path: Fault(status=200) if method == "PUT" and "/race-" in path else None

    assert probe_conditional_writes(proxied_store, folder="probes") == "of 4 racing creates 4 succeeded"


def test_a_store_that_turns_the_condition_around_is_found_out(proxied_store: S3Store, s3_proxy: S3Proxy) -> None:
    s3_proxy.always = lambda method, path: Fault(status=412, code="PreconditionFailed") if method == "PUT" else None

    assert probe_conditional_writes(proxied_store, folder="p") == "a new object is refused as if it existed"
