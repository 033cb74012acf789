"""The launch stage with its gang in a queue: it waits, is let in, makes room, and goes on from where it was."""

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from components.contracts.pods import LostNodeRule, PodOptions, QueueRule
from components.launch.spec import LaunchSpec
from tests.components.launch.stage import Stage, wait_until
from tests.components.launch.test_on_kubernetes import ClusterPlace, place
from tests.components.launch.test_with_agents import FINAL_LOSS, a_run
from tests.fakes.kubelet import JOBS

__all__ = ["place"]

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(sys.platform != "linux", reason="the gang needs Linux"),
]

KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
BUSY = "insufficient unused quota for cpu in flavor default, 2 more needed"


class Queue:
    """Plays Kueue: a Workload a gang, suspended or not as the test says."""

    def __init__(self, place: ClusterPlace, *, quota: str = "64") -> None:
        self.server = place.server
        metadata = {"name": "main", "namespace": "ml"}
        status = {"pendingWorkloads": 1, "flavorsReservation": []}
        self.server.put(
            f"{KUEUE}/namespaces/ml/localqueues/main",
            {"metadata": metadata, "spec": {"clusterQueue": "cq"}, "status": status},
        )
        flavors = [{"name": "default", "resources": [{"name": "cpu", "nominalQuota": quota}]}]
        self.server.put(
            f"{KUEUE}/clusterqueues/cq",
            {"metadata": {"name": "cq"}, "spec": {"resourceGroups": [{"flavors": flavors}]}, "status": status},
        )

    def take(self, gang: str) -> None:
        """Make its Workload, which waits."""
        wait_until(lambda: f"{JOBS}/{gang}" in self.server.objects, f"{gang} created")
        self._tell(gang, {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": BUSY})

    def admit(self, gang: str) -> None:
        self._tell(gang, {"type": "Admitted", "status": "True"}, {"type": "QuotaReserved", "status": "True"})
        self._suspend(gang, False)

    def preempt(self, gang: str) -> None:
        message = "Preempted to accommodate a workload (UID: other)"
        evicted = {"type": "Evicted", "status": "True", "reason": "Preempted", "message": message}
        self._tell(gang, evicted, {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": message})
        self._suspend(gang, True)

    def _tell(self, gang: str, *conditions: Any) -> None:
        owner = {"uid": self.server.objects[f"{JOBS}/{gang}"]["metadata"]["uid"]}
        self.server.put(
            f"{KUEUE}/namespaces/ml/workloads/job-{gang}",
            {
                "metadata": {"name": f"job-{gang}", "namespace": "ml", "uid": f"w-{gang}", "ownerReferences": [owner]},
                "spec": {"queueName": "main", "priority": 0}, "status": {"conditions": list(conditions)},
            },
        )  # fmt: skip

    def _suspend(self, gang: str, value: bool) -> None:
        job = self.server.objects[f"{JOBS}/{gang}"]
        self.server.put(f"{JOBS}/{gang}", {**job, "spec": {**job["spec"], "suspend": value}})


@pytest.fixture
def queue(place: ClusterPlace) -> Iterator[Queue]:
    return Queue(place)


def a_gang(*options: str, limit: float = 600.0, name: str = "main", **changes: Any) -> LaunchSpec:
    pods = PodOptions(
        image="user:1", platform_image="argosy:1", lost_node=LostNodeRule(policy="wait"),
        queue=QueueRule(name=name, limit_seconds=limit),
    )  # fmt: skip
    return a_run(*options, pods=pods, **changes)


def logged(stage: Stage, text: str) -> None:
    wait_until(lambda: any(text in line["message"] for line in stage.log), text)


def test_a_gang_waits_without_pods_and_says_why_until_it_is_let_in(place: ClusterPlace, queue: Queue) -> None:
    stage = place.launch(a_gang())
    queue.take("exp-abcde-g0")
    logged(stage, f"the gang waits in its queue: QuotaBusy: {BUSY}; number 1 of 1")
    wait_until(lambda: place.state.queue is not None and place.state.queue.position == 1, "its place is told")
    told = place.state
    assert (told.state.value, told.reason) == ("Queued", "QuotaBusy")
    assert told.queue is not None
    assert [(item.resource, item.used, item.quota) for item in told.queue.quota] == [("cpu", "0", "64")]
    assert place.kubelet.pods == {}
    queue.admit("exp-abcde-g0")
    assert stage.wait(120) == 0
    assert place.final_loss() == FINAL_LOSS
    assert place.state.queue is None
    assert place.state.generations[0].admitted_at is not None
    assert place.left_over() == []


def test_a_gang_that_makes_room_saves_its_work_and_goes_on_from_there_for_free(
    place: ClusterPlace, queue: Queue
) -> None:
    stage = place.launch(a_gang("--seconds", "0.2", max_restarts=0))
    queue.take("exp-abcde-g0")
    queue.admit("exp-abcde-g0")
    place.wait_for_step(3)
    queue.preempt("exp-abcde-g0")
    queue.take("exp-abcde-g1")
    wait_until(lambda: place.state.queue is not None, "the next generation waits")
    assert place.state.state.value == "Preempted"
    queue.admit("exp-abcde-g1")
    assert stage.wait(120) == 0
    first, second = place.state.generations
    assert (first.exit_code, first.reason) == (95, "Preempted")
    assert first.message == "Preempted: Preempted to accommodate a workload (UID: other)"
    assert (second.begin_reason, second.charged) == ("Preempted", False)
    assert stage.outputs["restarts"] == "0"
    resumed = place.gang_state(1)
    assert resumed is not None
    assert resumed.attempts[0].resumed_step >= 3
    assert place.final_loss() == FINAL_LOSS


def test_a_gang_that_is_never_let_in_ends_at_the_queues_own_limit_and_is_gone(
    place: ClusterPlace, queue: Queue
) -> None:
    stage = place.launch(a_gang(limit=1.0))
    assert stage.wait(60) == 83
    assert stage.last_words.startswith("QueueDeadline: waited ")
    assert place.left_over() == []


def test_an_unknown_queue_and_a_gang_too_large_are_refused_before_anything_is_created(
    place: ClusterPlace, queue: Queue
) -> None:
    unknown = place.launch(a_gang(name="mian"))
    assert unknown.wait(60) == 78
    assert unknown.last_words.startswith("UnknownQueue: there is no LocalQueue mian in namespace ml")
    Queue(place, quota="100m")
    large = place.launch(a_gang())
    assert large.wait(60) == 78
    assert large.last_words.startswith("GangTooLarge: ")
    assert [item.path for item in place.server.asked if item.method == "POST" and "/secrets" in item.path] == []
    assert place.jobs() == []
