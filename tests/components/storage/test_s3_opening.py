"""How a store is opened, and what that costs whoever does not need it."""

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import botocore
import pytest

from components.storage.base import StorageError, open_store
from components.storage.location import S3Location
from components.storage.s3 import S3Store
from tests.fakes.s3_server import ROOT, S3Server, certificate

OTHERS = Path(botocore.__file__).parent / "cacert.pem"
"""Certificates that do not vouch for ours."""


@pytest.fixture
def environment(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    return


def test_a_store_is_opened_from_the_environment_once(s3_server: S3Server, environment: None) -> None:
    uri = f"s3://{s3_server.new_bucket()}/x"
    store = open_store(uri)
    store.create("a", b"1")

    assert store.uri == uri
    assert open_store(uri) is store
    assert store.local_path("a") is None


def test_stores_that_are_reached_alike_share_a_client(
    s3_server: S3Server, environment: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def client_of(uri: str) -> Any:
        store = open_store(uri)
        assert isinstance(store, S3Store)
        return store._client

    first = client_of("s3://one-bucket/x")

    assert client_of("s3://other-bucket") is first
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "somebody-else")
    assert client_of("s3://one-bucket/x") is not first


def test_importing_the_storage_does_not_load_boto3() -> None:
    program = "import sys, components.storage.base, components.storage.local; sys.exit('botocore' in sys.modules)"

    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


def test_requests_say_who_asks(proxied_store: S3Store) -> None:
    agents: list[str] = []
    proxied_store._client.meta.events.register(
        "before-send.s3", lambda request, **_: agents.append(request.headers["User-Agent"].decode())
    )
    proxied_store.find("a")

    assert "argosy" in agents[0]


def payload_hash(store: S3Store) -> str:
    """What the signature of a PUT says about its body."""
    hashes: list[bytes] = []
    store._client.meta.events.register(
        "before-send.s3", lambda request, **_: hashes.append(request.headers["X-Amz-Content-SHA256"])
    )
    store.create("signed", b"1")
    return hashes[0].decode()


def test_over_tls_a_body_is_hashed_once_and_a_foreign_certificate_is_refused(tmp_path: Path) -> None:
    cert, key = certificate()
    server = S3Server(tmp_path / "s3", options=["--cert", str(cert), "--key", str(key)], scheme="https")
    try:
        stranger = server.client_of(server.endpoint, AWS_CA_BUNDLE=str(OTHERS))
        with pytest.raises(StorageError, match=r"CertificateRefused: .*set storage_options\.ca_bundle"):
            S3Store(S3Location("bucket", ""), stranger).read("a")
        stranger.close()
        store = server.new_store()
        (tmp_path / "file").write_bytes(b"x" * 300_000)

        assert payload_hash(store) == "UNSIGNED-PAYLOAD"
        assert store.create_from("file", tmp_path / "file") == hashlib.sha256(b"x" * 300_000).hexdigest()
        assert store.read("file") == b"x" * 300_000
    finally:
        server.close()


def test_without_tls_the_body_is_signed_as_well(s3_server: S3Server) -> None:
    client = s3_server.client_of(s3_server.endpoint)

    assert payload_hash(s3_server.new_store(client=client)) == hashlib.sha256(b"1").hexdigest()
    client.close()
