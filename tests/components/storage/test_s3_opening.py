"""How a store is opened, and what that costs whoever does not need it."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from components.storage.base import open_store
from components.storage.s3 import S3Store
from tests.fakes.s3_server import ROOT, S3Server


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
