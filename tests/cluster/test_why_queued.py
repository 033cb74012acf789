"""What `why` says of gangs in a queue of Kueue's: quota in use, too large, no such queue, stopped, preempted."""

import os
import time
from collections.abc import Iterator

import pytest

from components.cluster.api import KubernetesCluster
from components.cluster.kinds import CLUSTER_QUEUES
from tests.cluster.test_why_recorded import is_right, keep, looked_at
from tests.cluster.why_cases import Case, Manifest, Spoil, asks
from tests.cluster.why_stage import BASE, Stage, apply, kubectl, scene

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.timeout(900),
    pytest.mark.skipif("DEVCLUSTER_TRAIN_IMAGE" not in os.environ, reason="needs the development cluster's variables"),
]
LIMIT_SECONDS = 150.0
API = "kueue.x-k8s.io/v1beta2"
GOLD, SILVER = f"{BASE}-gold", f"{BASE}-silver"


def cluster_queue(name: str) -> Manifest:
    resources = [{"name": "cpu", "nominalQuota": "1"}, {"name": "memory", "nominalQuota": "2Gi"}]
    return {
        "apiVersion": API, "kind": "ClusterQueue", "metadata": {"name": name},
        "spec": {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": BASE}},
            "queueingStrategy": "BestEffortFIFO", "stopPolicy": "None",
            "flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"},
            "preemption": {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Never",
                           "borrowWithinCohort": {"policy": "Never"}},
            "resourceGroups": [
                {"coveredResources": ["cpu", "memory"], "flavors": [{"name": f"{BASE}-any", "resources": resources}]}
            ],
        },
    }  # fmt: skip


def local_queue(name: str, of: str, stop: str = "None") -> Manifest:
    return {
        "apiVersion": API, "kind": "LocalQueue", "metadata": {"name": name},
        "spec": {"clusterQueue": of, "stopPolicy": stop},
    }  # fmt: skip


def in_queue(queue: str, priority: str = "") -> Spoil:
    def wrap(item: Manifest) -> None:
        item["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = queue
        if priority:
            item["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = priority
        item["spec"]["suspend"] = True

    return wrap


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    if not KubernetesCluster.connect(namespace="default").serves(CLUSTER_QUEUES):
        pytest.skip("the cluster has no Kueue")
    folder = tmp_path_factory.mktemp("why")
    wide: list[Manifest] = [
        {"apiVersion": API, "kind": "ResourceFlavor", "metadata": {"name": f"{BASE}-any"}, "spec": {}},
        cluster_queue(GOLD), cluster_queue(SILVER),
        {"apiVersion": API, "kind": "WorkloadPriorityClass", "metadata": {"name": f"{BASE}-urgent"}, "value": 1000,
         "description": ""},
    ]  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ARGOSY_HOME", str(folder / "home"))
        patch.setenv("XDG_CONFIG_HOME", str(folder))
        try:
            with scene(os.environ["DEVCLUSTER_TRAIN_IMAGE"], os.environ["DEVCLUSTER_PLATFORM_IMAGE"]) as found:
                apply(*wide)
                apply(
                    local_queue("gold", GOLD), local_queue("silver", SILVER), local_queue("closed", GOLD, "Hold"),
                    namespace=BASE,
                )  # fmt: skip
                yield found
        finally:
            for item in reversed(wide):
                kubectl(
                    "delete", item["kind"], item["metadata"]["name"], "--ignore-not-found", "--wait=false", check=False
                )


def test_gangs_in_a_queue_get_their_cause(stage: Stage) -> None:
    holders = [
        Case("queue-holder", "Starting", "wait", (), asks(cpu="700m"), wrap=in_queue("gold")),
        Case("queue-victim", "Starting", "wait", (), asks(cpu="700m"), wrap=in_queue("silver")),
    ]
    for case in holders:
        stage.play(case)
    end = time.monotonic() + 60
    while time.monotonic() < end and not all(stage.pods(case) for case in holders):
        time.sleep(1.0)
    cases = [
        Case("queue-in-use", "QueueWaits", "wait", ("gold",), asks(cpu="600m"), wrap=in_queue("gold")),
        Case("queue-too-small", "LargerThanQuota", "you", ("gold",), asks(cpu="5"), wrap=in_queue("gold")),
        Case("queue-missing", "QueueMissing", "you", ("no-such-queue",), wrap=in_queue("no-such-queue")),
        Case("queue-stopped", "QueueStopped", "admin", ("closed",), asks(cpu="100m"), wrap=in_queue("closed")),
        Case("queue-unknown-resource", "ResourceNotInQueue", "admin", ("silver",), asks(amd_com__gpu="1"),
             wrap=in_queue("silver")),
        Case("queue-urgent", "Starting", "wait", (), asks(cpu="600m"), wrap=in_queue("silver", f"{BASE}-urgent")),
    ]  # fmt: skip
    for case in cases:
        stage.play(case)
    waiting = {case.name: case for case in cases if case.reason != "Starting"}
    waiting["queue-victim"] = Case("queue-victim", "Preempted", "wait", ("silver",))
    last: dict[str, str] = {}
    end = time.monotonic() + LIMIT_SECONDS
    while waiting and time.monotonic() < end:
        for name, case in list(waiting.items()):
            observed, answer = looked_at(stage, case)
            last[name] = answer.diagnosis.headline
            if is_right(case, answer):
                keep(case, observed)
                del waiting[name]
        time.sleep(1.0)
    assert {name: last[name] for name in waiting} == {}
