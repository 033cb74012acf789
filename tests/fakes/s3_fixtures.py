"""Fixtures: one real S3 server a session, a misbehaving proxy before it, and stores of either kind."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


@pytest.fixture(scope="session")
def s3_proxy_of_session(s3_server_of_session: S3Server) -> Iterator[tuple[S3Proxy, Any]]:
    """With a client for it, which takes longer to make than a test to run."""
    with running_proxy(s3_server_of_session.port) as proxy:
        client = s3_server_of_session.client_of(proxy.endpoint, read_seconds=0.5)
        yield proxy, client
        client.close()


@pytest.fixture
def s3_proxy(s3_server: S3Server, s3_proxy_of_session: tuple[S3Proxy, Any]) -> S3Proxy:
    """The same server behind an endpoint that can be told to misbehave; it does not yet."""
    proxy, _ = s3_proxy_of_session
    proxy.behave()
    return proxy


@pytest.fixture
def s3_store(s3_server: S3Server) -> S3Store:
    """A store on a bucket of its own, below a prefix."""
    return s3_server.new_store(prefix="team/argosy")


@pytest.fixture
def proxied_store(s3_server: S3Server, s3_proxy: S3Proxy, s3_proxy_of_session: tuple[S3Proxy, Any]) -> S3Store:
    """A store that is reached through `s3_proxy` and gives a silent server up after half a second."""
    return s3_server.new_store(client=s3_proxy_of_session[1])


@pytest.fixture(params=["file", "s3"])
def any_store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    """One store of each kind."""
    if request.param == "file":
        return LocalStore(tmp_path / "storage")
    server: S3Server = request.getfixturevalue("s3_server")
    return server.new_store(prefix="team/argosy")
