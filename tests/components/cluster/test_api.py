"""The Kubernetes API as the rest of Argosy sees it, over real HTTP."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from components.cluster.api import KubernetesCluster
from components.cluster.base import (
    AlreadyThere,
    Forbidden,
    NamespaceMissing,
    NotServed,
    NotSignedIn,
    Refused,
    WatchExpired,
)
from components.cluster.kinds import CONFIG_MAPS, JOB_SETS, WORKFLOWS
from components.cluster.transport import Tries
from components.errors import BadInput, Transient
from tests.fakes.api_server import FakeApiServer, answer, api_server, do_then_hang_up, hang_up

FOLDER = "/api/v1/namespaces/ml/configmaps"


@pytest.fixture
def server() -> Iterator[FakeApiServer]:
    with api_server() as running:
        yield running


@pytest.fixture
def cluster(server: FakeApiServer, tmp_path: Path) -> KubernetesCluster:
    return connected(server, tmp_path)


def connected(server: FakeApiServer, folder: Path, **options: Any) -> KubernetesCluster:
    path = server.write_kubeconfig(folder / "kubeconfig", **options)
    found = KubernetesCluster.connect(kubeconfig=str(path))
    transport = replace(found.transport, tries=Tries(total_seconds=20.0, first_pause_seconds=0.001))
    return replace(found, transport=transport)


def body(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"app": "x"}}, "data": data}


def test_what_is_created_can_be_read_listed_changed_and_deleted(cluster: KubernetesCluster) -> None:
    assert cluster.namespace == "ml"
    made = cluster.create(CONFIG_MAPS, body("one", a="1"))
    assert (made["kind"], made["apiVersion"]) == ("ConfigMap", "v1")
    assert cluster.read(CONFIG_MAPS, "one") == made
    assert [item["metadata"]["name"] for item in cluster.list(CONFIG_MAPS, labels="app=x").items] == ["one"]
    assert cluster.list(CONFIG_MAPS, labels="app=y").items == []
    changed = cluster.patch(CONFIG_MAPS, "one", {"data": {"a": None, "b": "2"}})
    assert changed is not None
    assert changed["data"] == {"b": "2"}
    assert cluster.delete(CONFIG_MAPS, "one", uid="another") is False
    assert cluster.delete(CONFIG_MAPS, "one", grace_seconds=0) is True
    assert cluster.delete(CONFIG_MAPS, "one") is False
    assert cluster.read(CONFIG_MAPS, "one") is None
    assert cluster.patch(CONFIG_MAPS, "one", {}) is None


def test_a_list_of_several_pages_is_whole(server: FakeApiServer, cluster: KubernetesCluster) -> None:
    for index in range(1003):
        server.put(f"{FOLDER}/c{index:04d}", body(f"c{index:04d}"))
    listing = cluster.list(CONFIG_MAPS)
    assert (len(listing.items), listing.resource_version) == (1003, "1103")
    assert server.num("GET", "/configmaps") == 3


REFUSED = answer(403, 'User "ann" cannot list resource "configmaps"')
UNKNOWN = answer(401, "Unauthorized")


@pytest.mark.parametrize("away", [hang_up, answer(503, "starting"), answer(500, "starting")])
@pytest.mark.parametrize("refusal", [REFUSED, UNKNOWN])
def test_a_server_that_is_just_back_may_refuse_what_it_allows(
    server: FakeApiServer, cluster: KubernetesCluster, away: Any, refusal: Any
) -> None:
    server.faults += [away, refusal, refusal]
    assert cluster.list(CONFIG_MAPS).items == []
    assert server.num("GET", "/configmaps") == 4


def test_what_a_server_refuses_for_long_after_it_is_back_is_refused(
    server: FakeApiServer, cluster: KubernetesCluster
) -> None:
    times = iter(range(0, 10_000, 7))
    tries = Tries(total_seconds=600.0, clock=lambda: float(next(times)), pause=lambda _: None)
    cluster = replace(cluster, transport=replace(cluster.transport, tries=tries))
    server.faults += [hang_up, *[REFUSED] * 20]
    with pytest.raises(Forbidden, match='"ann" may not list configmaps'):
        cluster.list(CONFIG_MAPS)
    assert 2 < server.num("GET", "/configmaps") < 10


def test_a_watch_goes_on_through_a_server_that_is_just_back(server: FakeApiServer, cluster: KubernetesCluster) -> None:
    server.put(f"{FOLDER}/one", body("one"))
    server.faults += [hang_up, answer(403, 'User "ann" cannot watch resource "configmaps"')]
    with cluster.watch(CONFIG_MAPS, resource_version="1") as events:
        assert next(iter(events)).object["metadata"]["name"] == "one"
    assert server.num("GET", "/configmaps") == 3


@pytest.mark.parametrize("status", [429, 503])
def test_a_server_is_left_alone_as_long_as_it_wants_but_not_for_an_hour(
    server: FakeApiServer, cluster: KubernetesCluster, status: int
) -> None:
    pauses: list[float] = []
    tries = Tries(pause=pauses.append)
    cluster = replace(cluster, transport=replace(cluster.transport, tries=tries))
    server.faults += [answer(status, "busy", details={"retryAfterSeconds": seconds}) for seconds in (7, 3600)]
    cluster.create(CONFIG_MAPS, body("one"))
    assert pauses == [7.0, 10.0]


def test_a_create_whose_answer_was_lost_is_found_and_not_repeated(
    server: FakeApiServer, cluster: KubernetesCluster
) -> None:
    server.faults.append(do_then_hang_up)
    assert cluster.create(CONFIG_MAPS, body("one"))["metadata"]["name"] == "one"
    assert server.num("POST") == 1


def test_a_create_that_never_arrived_is_made_again(server: FakeApiServer, cluster: KubernetesCluster) -> None:
    server.faults += [hang_up]
    assert cluster.create(CONFIG_MAPS, body("one"))["metadata"]["name"] == "one"
    assert server.num("POST") == 2


def test_somebody_elses_object_of_that_name_is_not_taken_for_ours(
    server: FakeApiServer, cluster: KubernetesCluster
) -> None:
    server.put(f"{FOLDER}/one", body("one"))
    with pytest.raises(AlreadyThere):
        cluster.create(CONFIG_MAPS, body("one"))
    server.faults += [hang_up]
    with pytest.raises(AlreadyThere):
        cluster.create(CONFIG_MAPS, body("one"))


def test_a_busy_server_is_asked_again(server: FakeApiServer, cluster: KubernetesCluster) -> None:
    server.put(f"{FOLDER}/one", body("one"))
    server.faults += [answer(429, "slow down"), answer(503, "starting"), answer(500, "etcd"), hang_up]
    assert cluster.read(CONFIG_MAPS, "one") is not None
    assert server.num("GET") == 5


@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [
        (answer(401, "Unauthorized"), NotSignedIn, ["expired", "sign in again"]),
        (
            answer(403, 'configmaps is forbidden: User "ann" cannot create resource "configmaps"'),
            Forbidden, ['"ann" may not create configmaps one in namespace ml', 'verb "create" on "configmaps"'],
        ),
        (answer(403, 'User "system:anonymous" cannot get path'), NotSignedIn, ["no credentials were sent"]),
        (answer(403, "pods x is forbidden: exceeded quota: gpus"), Refused, ["QuotaExceeded", "gpus"]),
        (answer(413, "too large"), Refused, ["TooLarge"]),
        (answer(500, "etcdserver: request is too large"), Refused, ["TooLarge"]),
        (
            answer(422, "invalid", details={"causes": [{"field": "spec.x", "message": "unknown"}]}),
            Refused, ["ConfigMap spec.x: unknown"],
        ),
    ],
)  # fmt: skip
def test_a_refusal_says_what_was_asked_and_what_to_do(
    server: FakeApiServer, cluster: KubernetesCluster, fault: Any, kind: type[Exception], words: list[str]
) -> None:
    server.faults.append(fault)
    with pytest.raises(kind) as raised:
        cluster.create(CONFIG_MAPS, body("one"))
    assert all(word in str(raised.value) for word in words), str(raised.value)
    assert server.num("POST") == 1


def test_a_missing_namespace_kind_or_object_are_told_apart(cluster: KubernetesCluster) -> None:
    with pytest.raises(NamespaceMissing, match="there is no namespace nowhere"):
        replace(cluster, namespace="nowhere").create(CONFIG_MAPS, body("one"))
    with pytest.raises(NotServed, match=r"knows no JobSet \(jobset.x-k8s.io/v1alpha2\)"):
        cluster.list(JOB_SETS)
    assert cluster.serves(JOB_SETS) is False
    assert cluster.serves(WORKFLOWS) is True


def test_a_watch_goes_on_where_its_connection_broke(server: FakeApiServer, cluster: KubernetesCluster) -> None:
    server.put(f"{FOLDER}/one", body("one"))
    with cluster.watch(CONFIG_MAPS) as stream:
        first = next(stream)
        assert (first.type, first.object["metadata"]["name"]) == ("ADDED", "one")
        server.faults += [hang_up, answer(503, "starting")]
        server.cut_watches()
        server.put(f"{FOLDER}/two", body("two"))
        second = next(stream)
        assert (second.type, second.object["metadata"]["name"]) == ("ADDED", "two")
        server.put(f"{FOLDER}/two", body("two"), "DELETED")
        assert next(stream).type == "DELETED"


def test_a_watch_from_a_forgotten_version_says_so(server: FakeApiServer, cluster: KubernetesCluster) -> None:
    server.put(f"{FOLDER}/one", body("one"))
    server.oldest = 50
    with cluster.watch(CONFIG_MAPS, resource_version="7") as stream, pytest.raises(WatchExpired):
        next(stream)


def test_a_watch_ends_when_another_thread_closes_it(server: FakeApiServer, cluster: KubernetesCluster) -> None:
    stream = cluster.watch(CONFIG_MAPS, resource_version="100")
    seen: list[object] = []
    reader = threading.Thread(target=lambda: seen.extend(stream))
    reader.start()
    server.put(f"{FOLDER}/one", body("one"))
    stream.close()
    reader.join(20)
    assert not reader.is_alive()


def test_a_watch_ends_after_its_time(server: FakeApiServer, cluster: KubernetesCluster) -> None:
    assert list(cluster.watch(CONFIG_MAPS, resource_version="100", seconds=0.05)) == []


def test_a_log_comes_line_by_line(server: FakeApiServer, cluster: KubernetesCluster) -> None:
    server.logs["p"] = b"first line\nsecond\xff\nunfinished"
    stream = cluster.logs("p", "main")
    assert stream is not None
    assert list(stream) == [b"first line", b"second\xff", b"unfinished"]
    assert server.asked[-1].query == {"container": "main"}
    assert cluster.logs("q", "main") is None


def test_a_server_that_is_not_there_is_named(server: FakeApiServer, tmp_path: Path) -> None:
    cluster = connected(server, tmp_path)
    gone = replace(cluster.transport, host="http://127.0.0.1:1", tries=Tries(total_seconds=0.0))
    with pytest.raises(Transient, match=r"http://127.0.0.1:1 does not answer: .*refused"):
        replace(cluster, transport=gone).read(CONFIG_MAPS, "one")


def test_a_configuration_that_leads_nowhere_is_refused(server: FakeApiServer, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="there is no kubeconfig at /nonexistent"):
        KubernetesCluster.connect(kubeconfig="/nonexistent")
    path = str(server.write_kubeconfig(tmp_path / "config"))
    with pytest.raises(BadInput, match="is called 'there'; use one of: here"):
        KubernetesCluster.connect(kubeconfig=path, context="there")
    (tmp_path / "broken").write_text("clusters: [")
    with pytest.raises(BadInput, match="KubeconfigRefused"):
        KubernetesCluster.connect(kubeconfig=str(tmp_path / "broken"))
    assert KubernetesCluster.connect(kubeconfig=path, namespace="other").namespace == "other"
    expired = connected(server, tmp_path, token="old")
    with pytest.raises(NotSignedIn):
        expired.read(CONFIG_MAPS, "one")
