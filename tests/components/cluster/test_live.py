"""A live copy of objects follows what happens, whatever becomes of its watch."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from components.cluster.api import KubernetesCluster
from components.cluster.base import Forbidden
from components.cluster.kinds import JOB_SETS, PODS
from components.cluster.live import LiveObjects
from components.runtime.log import Log
from tests.components.launch.stage import wait_until
from tests.fakes.api_server import FakeApiServer, answer, api_server

FOLDER = "/api/v1/namespaces/ml/pods"


@pytest.fixture
def server() -> Iterator[FakeApiServer]:
    with api_server() as running:
        yield running


@pytest.fixture
def watch(server: FakeApiServer, tmp_path: Path) -> Iterator[Callable[..., LiveObjects]]:
    server.write_kubeconfig(tmp_path / "kubeconfig")
    cluster = KubernetesCluster.connect(kubeconfig=str(tmp_path / "kubeconfig"))
    opened: list[LiveObjects] = []

    def make(**options: Any) -> LiveObjects:
        values: dict[str, Any] = {"kind": PODS, "on_change": lambda: None, "log": Log({}), **options}
        opened.append(LiveObjects(cluster, values.pop("kind"), **values))
        return opened[-1]

    yield make
    for live in opened:
        live.close()


def put(server: FakeApiServer, name: str, event: str = "", **spec: Any) -> None:
    server.put(f"{FOLDER}/{name}", {"metadata": {"name": name, "uid": name}, "spec": spec}, event)


def names(live: LiveObjects) -> tuple[list[str], list[str]]:
    living, gone = live.snapshot()
    return sorted(living), sorted(gone)


def test_objects_come_change_and_go_and_what_is_gone_stays_known(
    server: FakeApiServer, watch: Callable[..., LiveObjects]
) -> None:
    put(server, "one")
    live = watch()
    assert live.wait_until_listed(10.0)
    assert names(live) == (["one"], [])
    put(server, "two")
    put(server, "one", "DELETED")
    wait_until(lambda: names(live) == (["two"], ["one"]), "both changes seen")
    assert server.num("GET", "/pods") == 2  # a list and a watch


def test_a_forgotten_history_is_made_up_for_by_a_new_list(
    server: FakeApiServer, watch: Callable[..., LiveObjects]
) -> None:
    put(server, "one")
    live = watch()
    assert live.wait_until_listed(10.0)
    wait_until(lambda: len(server.watchers) == 1, "the watch is open")
    with server.lock:  # while the connection is cut everything changes, and the server forgets how
        put(server, "one", "DELETED")
        put(server, "two")
        server.oldest = server.version
        server.history.clear()
        server.cut_watches()
    wait_until(lambda: names(live) == (["two"], ["one"]), "what changed meanwhile is known")


def test_only_what_is_worth_keeping_wakes_anybody(server: FakeApiServer, watch: Callable[..., LiveObjects]) -> None:
    woken = threading.Semaphore(0)
    live = watch(on_change=woken.release, keep=lambda pod: {"node": pod["spec"].get("node")})
    assert live.wait_until_listed(10.0)
    assert woken.acquire(timeout=10.0)
    put(server, "one", node="a")
    assert woken.acquire(timeout=10.0)
    put(server, "one", node="a", heartbeat=2)
    put(server, "two", node="b")
    wait_until(lambda: names(live) == (["one", "two"], []), "the second pod is known")
    assert woken.acquire(timeout=10.0)
    assert not woken.acquire(blocking=False)


def test_who_may_not_look_is_told_which_right_is_missing(
    server: FakeApiServer, watch: Callable[..., LiveObjects]
) -> None:
    message = 'jobs is forbidden: User "sa" cannot list resource "pods" in API group "" in the namespace "ml"'
    server.faults.append(answer(403, message, reason="Forbidden"))
    live = watch()
    with pytest.raises(Forbidden, match="list pods"):
        live.wait_until_listed(10.0)
    assert live.is_refused


def test_a_bug_in_the_thread_is_told_to_who_looks_and_the_past_is_not_taken_for_the_present(
    server: FakeApiServer, watch: Callable[..., LiveObjects]
) -> None:
    put(server, "one")
    live = watch(keep=lambda pod: pod["spec"]["nothing"])
    with pytest.raises(KeyError, match="nothing"):
        live.wait_until_listed(10.0)
    with pytest.raises(KeyError, match="nothing"):
        live.require_sight()


def test_a_kind_the_cluster_does_not_have_is_said(watch: Callable[..., LiveObjects]) -> None:
    with pytest.raises(Exception, match="JobSet"):
        watch(kind=JOB_SETS).wait_until_listed(10.0)
