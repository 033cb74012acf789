"""A queue in which the gang would wait in vain is refused before anything is created."""

import io
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from components.cluster.api import KubernetesCluster
from components.contracts.pods import QueueRule
from components.errors import ArgosyError, BadInput, EnvironmentUnfit
from components.launch.queue_checks import pod_requests, require_queue, size_problems
from components.runtime.log import Log
from tests.fakes import api_server as fakes
from tests.fakes.api_server import FakeApiServer, answer, api_server, let_through

LOCAL = "/apis/kueue.x-k8s.io/v1beta2/namespaces/ml/localqueues"
CLUSTER = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues"
PRIORITIES = "/apis/kueue.x-k8s.io/v1beta2/workloadpriorityclasses"
POD = {"containers": [{"resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}]}


@pytest.fixture
def server() -> Iterator[FakeApiServer]:
    with api_server() as running:
        put(running)
        yield running


def put(server: FakeApiServer, *, local: Any = None, cluster: Any = None, cpu: str = "8") -> None:
    spec = {"clusterQueue": "cq", **(local or {})}
    server.put(f"{LOCAL}/main", {"metadata": {"name": "main"}, "spec": spec})
    flavors = [{"name": "f", "resources": [{"name": "cpu", "nominalQuota": cpu}]}]
    spec = {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": flavors}], **(cluster or {})}
    server.put(f"{CLUSTER}/cq", {"metadata": {"name": "cq"}, "spec": spec})
    server.put(f"{PRIORITIES}/high", {"metadata": {"name": "high"}})


def require(server: FakeApiServer, folder: Path, *, nodes: int = 2, first: bool = True, **rule: Any) -> str:
    """What is warned about."""
    cluster = KubernetesCluster.connect(kubeconfig=str(server.write_kubeconfig(folder / "kubeconfig")))
    stream = io.StringIO()
    queue = QueueRule(**{"name": "main", "limit_seconds": 60.0, **rule})
    require_queue(cluster, queue, POD, num_nodes=nodes, is_first=first, log=Log({}, stream))
    return stream.getvalue()


def refusal(server: FakeApiServer, folder: Path, **changes: Any) -> ArgosyError:
    with pytest.raises(ArgosyError) as caught:
        require(server, folder, **changes)
    return caught.value


def test_an_open_queue_with_room_for_the_gang_is_taken(server: FakeApiServer, tmp_path: Path) -> None:
    assert require(server, tmp_path, priority="high") == ""


def test_a_cluster_without_kueue_is_said_to_have_none(
    server: FakeApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    apis = {path: kinds for path, kinds in fakes.APIS.items() if "kueue" not in path}
    monkeypatch.setattr(fakes, "APIS", apis)
    error = refusal(server, tmp_path)
    assert isinstance(error, EnvironmentUnfit)
    assert (error.reason, error.fix) == ("NoKueue", "install Kueue, or leave `queue` out")


def test_a_kueue_of_another_version_is_named(
    server: FakeApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    apis = {path.replace("/v1beta2", "/v1beta1"): kinds for path, kinds in fakes.APIS.items()}
    monkeypatch.setattr(fakes, "APIS", apis)
    error = refusal(server, tmp_path)
    assert error.reason == "KueueOfAnotherVersion"
    assert "serves kueue.x-k8s.io/v1beta1, and not kueue.x-k8s.io/v1beta2" in error.seen


def test_an_unknown_queue_is_refused_with_those_there_are(server: FakeApiServer, tmp_path: Path) -> None:
    error = refusal(server, tmp_path, name="mian")
    assert isinstance(error, BadInput)
    assert error.seen == "there is no LocalQueue mian in namespace ml"
    assert error.fix == "set queue.name to one of main"


def test_an_unknown_priority_is_refused(server: FakeApiServer, tmp_path: Path) -> None:
    assert refusal(server, tmp_path, priority="hihg").reason == "UnknownPriority"


@pytest.mark.parametrize("stopped", [{"local": {"stopPolicy": "Hold"}}, {"cluster": {"stopPolicy": "HoldAndDrain"}}])
def test_a_stopped_queue_is_refused_at_first_and_waited_for_later(
    server: FakeApiServer, tmp_path: Path, stopped: Any
) -> None:
    put(server, **stopped)
    assert refusal(server, tmp_path).reason == "QueueStopped"
    assert require(server, tmp_path, first=False) == ""


def test_a_gang_larger_than_any_quota_is_refused_with_the_resource(server: FakeApiServer, tmp_path: Path) -> None:
    error = refusal(server, tmp_path, nodes=5)
    assert isinstance(error, BadInput)
    assert error.reason == "GangTooLarge"
    assert [str(problem) for problem in error.problems] == [
        "cpu of flavor f: the gang asks for 10, and there are never more than 8"
    ]


def test_a_queue_without_quota_is_refused(server: FakeApiServer, tmp_path: Path) -> None:
    put(server, local={"clusterQueue": "gone"})
    assert refusal(server, tmp_path).reason == "QueueWithoutQuota"


def test_where_the_quota_may_not_be_seen_it_is_said_and_kueue_is_left_to_judge(
    server: FakeApiServer, tmp_path: Path
) -> None:
    forbidden = 'clusterqueues "cq" is forbidden: User "u" cannot get resource'
    # Discovery and the LocalQueue are answered, the ClusterQueue is not this account's to see.
    server.faults.extend([let_through, let_through, answer(403, forbidden, reason="Forbidden")])
    assert "cannot see whether the gang fits its quota" in require(server, tmp_path, nodes=99)


def test_a_gang_fits_if_one_flavor_holds_it_and_borrowing_counts() -> None:
    def quota(*nominal: str, limit: str | None = None, cohort: str = "") -> dict[str, Any]:
        borrow = {} if limit is None else {"borrowingLimit": limit}
        flavors = [
            {"name": f"f{index}", "resources": [{"name": "cpu", "nominalQuota": text, **borrow}]}
            for index, text in enumerate(nominal)
        ]
        return {"spec": {"cohortName": cohort, "resourceGroups": [{"flavors": flavors}]}}

    def lacks(spec: dict[str, Any]) -> list[str]:
        return [problem.where for problem in size_problems(spec, POD, num_nodes=2)]

    assert lacks(quota("2", "4")) == []
    assert lacks(quota("2", "3")) == ["cpu of flavor f0"]
    assert lacks(quota("2", limit="1", cohort="c")) == ["cpu of flavor f0"]
    assert lacks(quota("2", limit="2", cohort="c")) == []
    assert lacks(quota("0", cohort="c")) == []


def test_a_queue_that_counts_pods_counts_the_gangs() -> None:
    flavors = [{"name": "f", "resources": [{"name": "pods", "nominalQuota": "2"}]}]
    spec = {"spec": {"resourceGroups": [{"flavors": flavors}]}}
    assert size_problems(spec, POD, num_nodes=2) == []
    assert len(size_problems(spec, POD, num_nodes=3)) == 1


def test_a_pod_asks_for_what_kubernetes_counts() -> None:
    def container(cpu: str, **more: Any) -> dict[str, Any]:
        return {"resources": {"requests": {"cpu": cpu}}, **more}

    pod = {
        "initContainers": [container("3"), container("1", restartPolicy="Always"), container("500m")],
        "containers": [container("1"), {"resources": {"limits": {"gpu": "8"}}}],
        "overhead": {"cpu": "250m"},
    }
    assert pod_requests(pod) == {"cpu": Decimal("3.25"), "gpu": Decimal(8)}
    small = {"initContainers": [container("1", restartPolicy="Always")], "containers": [container("4")]}
    assert pod_requests(small) == {"cpu": Decimal(5)}
