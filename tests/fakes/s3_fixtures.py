"""Fixtures: one real S3 server a session, a misbehaving proxy before it, and stores of either kind."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from components.storage.base import ObjectStore
from components.storage.local import LocalStore
from components.storage.s3 import S3Store
from tests.fakes.s3_proxy import S3Proxy, running_proxy
from tests.fakes.s3_server import S3Server


@pytest.fixture(scope="session")
def s3_server_of_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    server = S3Server(tmp_path_factory.mktemp("s3"))
    yield server
    server.close()


@pytest.fixture
def s3_server(s3_server_of_session: S3Server) -> S3Server:
    """A real server, running."""
    s3_server_of_session.revive()
    return s3_server_of_session


@pytest.fixture
def s3_proxy(s3_server: S3Server) -> Iterator[S3Proxy]:
    """The same server behind an endpoint that can be told to misbehave."""
    with running_proxy(s3_server.port) as proxy:
        yield proxy


@pytest.fixture
def s3_store(s3_server: S3Server) -> S3Store:
    """A store on a bucket of its own, below a prefix."""
    return s3_server.new_store(prefix="team/argosy")


@pytest.fixture
def proxied_store(s3_server: S3Server, s3_proxy: S3Proxy) -> Iterator[S3Store]:
    """A store that is reached through `s3_proxy` and gives a silent server up after half a second."""
    client = s3_server.client_of(s3_proxy.endpoint, read_seconds=0.5)
    yield s3_server.new_store(client=client)
    client.close()


@pytest.fixture(params=["file", "s3"])
def any_store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    """One store of each kind."""
    if request.param == "file":
        return LocalStore(tmp_path / "storage")
    server: S3Server = request.getfixturevalue("s3_server")
    return server.new_store(prefix="team/argosy")
