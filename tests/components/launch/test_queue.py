"""What a queue says about a gang: from Kueue's objects to where it stands, and from there to what the launcher does."""

from typing import Any

import pytest

from components.errors import ExitCode
from components.launch.backend import AgentPhase, AgentStatus
from components.launch.failure_policy import Finish, NewGeneration, StopCause
from components.launch.gang import Action, Observation, StopGang, Stopping, Wait, next_action
from components.launch.queue import QueuePhase, QueueStanding, Sight, queue_standing, requeue_seconds, workload_of
from tests.components.launch.stage import LIMITS
from tests.components.launch.values import AT, a_budget, a_generation, a_state, exited, running

BUSY = "couldn't assign flavors to pod set n: insufficient unused quota for cpu in flavor default, 2 more needed"
TOO_LARGE = (
    "couldn't assign flavors to pod set n: insufficient quota for cpu in flavor default, previously considered podsets "
    "requests (0) + current podset request (8) > maximum capacity (4)"
)


def a_gang(*, suspend: bool = True) -> dict[str, Any]:
    return {"metadata": {"name": "g", "namespace": "ml", "uid": "gang-1"}, "spec": {"suspend": suspend}}


def condition(kind: str, status: str, reason: str = "", message: str = "") -> dict[str, str]:
    return {"type": kind, "status": status, "reason": reason, "message": message}


def a_workload(
    *conditions: Any, name: str = "own", owner: str = "gang-1", priority: int = 0, at: str = "t1",
    namespace: str = "ml", **spec: Any,
) -> dict[str, Any]:  # fmt: skip
    owners = [{"uid": owner}]
    return {
        "metadata": {"name": name, "namespace": namespace, "creationTimestamp": at, "ownerReferences": owners},
        "spec": {"queueName": "main", "priority": priority, **spec}, "status": {"conditions": list(conditions)},
    }  # fmt: skip


def busy(**values: Any) -> dict[str, Any]:
    return a_workload(condition("QuotaReserved", "False", "Pending", BUSY), **values)


def checked(state: str) -> dict[str, Any]:
    workload = a_workload(condition("QuotaReserved", "True"))
    workload["status"]["admissionChecks"] = [{"name": "capacity", "state": state, "message": "no machines"}]
    return workload


def a_queue(kind: str = "LocalQueue", *, used: str = "0", pending: int = 0, **spec: Any) -> dict[str, Any]:
    usage = [{"name": "default", "resources": [{"name": "cpu", "total": used}]}]
    return {
        "kind": kind, "metadata": {"name": "main"},
        "spec": {"clusterQueue": "cq", **spec}, "status": {"pendingWorkloads": pending, "flavorsReservation": usage},
    }  # fmt: skip


def cluster_queue(*, used: str, pending: int = 0) -> dict[str, Any]:
    flavors = [{"name": "default", "resources": [{"name": "cpu", "nominalQuota": "8"}]}]
    groups = [{"coveredResources": ["cpu"], "flavors": flavors}]
    return a_queue("ClusterQueue", used=used, pending=pending, resourceGroups=groups)


def look(sight: Sight, *, was_admitted: bool = False) -> QueueStanding:
    return queue_standing(sight, name="main", since=AT, was_admitted=was_admitted)


# --- waiting


def test_a_suspended_gang_waits_and_its_place_is_counted_by_priority_and_age() -> None:
    others = [
        busy(name="older", owner="x", at="t0"), busy(name="urgent", owner="y", at="t9", priority=100),
        busy(name="younger", owner="z", at="t2"), busy(name="elsewhere", owner="w", at="t0", queueName="other"),
        a_workload(condition("QuotaReserved", "True"), name="runs", owner="v", at="t0"),
        a_workload(condition("Finished", "True"), name="over", owner="u", at="t0"),
    ]  # fmt: skip
    found = look(Sight(a_gang(), [busy(), *others]))
    assert (found.phase, found.reason, found.message) == (QueuePhase.WAITING, "QuotaBusy", BUSY)
    assert found.view is not None
    assert (found.view.position, found.view.num_waiting) == (3, 4)


def test_quota_in_use_is_shown_with_that_of_others_as_a_sum_and_nobody_is_named() -> None:
    sight = Sight(a_gang(), [busy()], a_queue(used="2", pending=1), cluster_queue(used="7500m", pending=4))
    view = look(sight).view
    assert view is not None
    (cpu,) = view.quota
    assert (cpu.resource, cpu.flavor, cpu.used, cpu.quota, cpu.used_by_others) == (
        "cpu", "default", "7500m", "8", "5500m",
    )  # fmt: skip
    assert view.num_others_waiting == 3
    assert view.others is None


def test_others_are_named_where_an_administrator_allows_it() -> None:
    everybody = [busy(), busy(name="job-b", namespace="speech", owner="b")]
    view = look(Sight(a_gang(), [busy()], a_queue(), cluster_queue(used="8"), everybody)).view
    assert view is not None
    assert view.others == ("speech/job-b",)


def test_where_the_quota_may_not_be_seen_only_ones_own_is_told() -> None:
    view = look(Sight(a_gang(), [busy()], a_queue(pending=1))).view
    assert view is not None
    assert (view.quota, view.num_others_waiting, view.position) == ((), None, 1)


@pytest.mark.parametrize(
    ("workloads", "local", "reason"),
    [
        ([], a_queue(), "JustQueued"),
        ([a_workload()], a_queue(), "BehindOthers"),
        ([busy()], a_queue(stopPolicy="Hold"), "QueueStopped"),
        ([a_workload(condition("QuotaReserved", "False", "Inadmissible", "LocalQueue main doesn't exist"))], None,
         "Inadmissible"),
        ([a_workload(condition("QuotaReserved", "False", "Pending", "untolerated taint {k: v}"))], a_queue(),
         "NoMatchingFlavor"),
        ([a_workload(condition("QuotaReserved", "True"))], a_queue(), "Admitted"),
        ([checked("Pending")], a_queue(), "AdmissionCheck"),
    ],
)  # fmt: skip
def test_each_reason_to_wait_has_a_name(workloads: Any, local: Any, reason: str) -> None:
    found = look(Sight(a_gang(), workloads, local))
    assert (found.phase, found.reason) == (QueuePhase.WAITING, reason)


def test_a_kueue_that_makes_no_workload_is_said_to_be_silent() -> None:
    found = look(Sight(a_gang(), [], a_queue(), waited_seconds=61.0, is_kueue_silent=True))
    assert found.reason == "KueueSilent"
    assert "after 61 s" in found.message


# --- admitted, taken, refused


def test_a_gang_that_is_not_suspended_is_admitted() -> None:
    admitted = a_workload(condition("QuotaReserved", "True"), condition("Admitted", "True"))
    assert look(Sight(a_gang(suspend=False), [admitted])).phase is QueuePhase.ADMITTED
    assert look(Sight(a_gang(suspend=False), [admitted]), was_admitted=True).phase is QueuePhase.ADMITTED


def test_a_gang_that_must_make_room_is_told_why() -> None:
    evicted = a_workload(
        condition("Evicted", "True", "Preempted", "Preempted to accommodate a workload"),
        condition("Preempted", "True", "InClusterQueue", "Preempted to accommodate a workload (UID: u)"),
    )
    found = look(Sight(a_gang(), [evicted]), was_admitted=True)
    assert (found.phase, found.reason, found.is_free) == (QueuePhase.TAKEN, "Preempted", True)
    assert found.message == "Preempted: Preempted to accommodate a workload (UID: u)"
    assert look(Sight(a_gang(suspend=False), [evicted]), was_admitted=True).phase is QueuePhase.TAKEN


def test_a_gang_whose_pods_were_not_ready_in_time_lost_its_quota_by_its_own_fault() -> None:
    evicted = a_workload(condition("Evicted", "True", "PodsReadyTimeout", "Exceeded the PodsReady timeout"))
    assert not look(Sight(a_gang(), [evicted]), was_admitted=True).is_free


def test_a_gang_whose_object_is_gone_is_nobodys_to_take() -> None:
    assert look(Sight(None, []), was_admitted=True).phase is QueuePhase.ADMITTED


@pytest.mark.parametrize(
    ("workload", "reason"),
    [
        (a_workload(condition("QuotaReserved", "False", "Pending", TOO_LARGE)), "GangTooLarge"),
        (checked("Rejected"), "Deactivated"),
        (a_workload(active=False), "Deactivated"),
        (a_workload(condition("DeactivationTarget", "True", "RequeuingLimitExceeded"), active=False),
         "RequeuingLimitExceeded"),
    ],
)  # fmt: skip
def test_what_no_waiting_mends_is_refused(workload: Any, reason: str) -> None:
    found = look(Sight(a_gang(), [workload], a_queue()))
    assert (found.phase, found.reason) == (QueuePhase.REFUSED, reason)


def test_one_flavor_that_may_become_free_is_enough_to_wait() -> None:
    both = a_workload(condition("QuotaReserved", "False", "Pending", f"{TOO_LARGE}, {BUSY}"))
    assert look(Sight(a_gang(), [both], a_queue())).phase is QueuePhase.WAITING


def test_the_newest_workload_of_the_gang_counts_and_no_strangers() -> None:
    workloads = [busy(name="old", at="t1"), busy(name="new", at="t2"), busy(name="foreign", owner="x", at="t3")]
    found = workload_of(a_gang(), workloads)
    assert found is not None
    assert found["metadata"]["name"] == "new"


# --- what the launcher does


WAITING = QueueStanding(QueuePhase.WAITING, "QuotaBusy", BUSY)
TAKEN = QueueStanding(QueuePhase.TAKEN, "Preempted", "Preempted: to make room")
PENDING = (AgentStatus(0, AgentPhase.PENDING), AgentStatus(1, AgentPhase.PENDING))


def act(
    queue: QueueStanding, *, agents: Any = PENDING, created: float = 0.0, queued: float = 0.0, limit: float = 100.0,
    stopping: Stopping | None = None, intent: StopCause | None = None, state: Any = None,
) -> Action:  # fmt: skip
    seen = Observation(agents, state, since_creation=created, since_news=0.0, queue=queue, since_queued=queued)
    return next_action(
        seen, limits=LIMITS, intent=intent, flush_seconds=5.0, budget=a_budget(), stopping=stopping,
        survives_launcher=True, queue_seconds=limit,
    )  # fmt: skip


def test_the_wait_in_the_queue_never_eats_the_start_limit() -> None:
    assert act(WAITING, created=99999.0, queued=99.0) == Wait()
    admitted = QueueStanding(QueuePhase.ADMITTED)
    assert act(admitted, created=22.0, queued=99999.0) == Wait()
    assert act(admitted, created=23.0) == StopGang(StopCause.START_DEADLINE)


def test_the_queue_has_a_limit_of_its_own_and_says_what_was_waited_for() -> None:
    assert act(WAITING, queued=100.0) == StopGang(StopCause.QUEUE_DEADLINE)
    gone = tuple(exited(rank, by_us=True) for rank in (0, 1))
    decision = act(WAITING, agents=gone, stopping=Stopping(StopCause.QUEUE_DEADLINE, 0.0, f"waited 2h: {BUSY}"))
    assert isinstance(decision, Finish)
    assert (decision.exit_code, decision.reason) == (ExitCode.STOPPED, "QueueDeadline")
    assert decision.seen == f"waited 2h: {BUSY}"
    assert "launch.limits.queue" in decision.fix


def test_a_stop_while_waiting_is_a_stop_and_an_interruption_leaves_it_in_the_queue() -> None:
    assert act(WAITING, intent=StopCause.REQUESTED) == StopGang(StopCause.REQUESTED)
    left = act(WAITING, intent=StopCause.INTERRUPTED)
    assert isinstance(left, Finish)
    assert left.exit_code is ExitCode.INTERRUPTED


def test_a_refusal_ends_the_run_at_once() -> None:
    refused = QueueStanding(QueuePhase.REFUSED, "GangTooLarge", TOO_LARGE)
    assert act(refused) == StopGang(StopCause.QUEUE_REFUSED)
    gone = tuple(exited(rank, by_us=True) for rank in (0, 1))
    decision = act(refused, agents=gone, stopping=Stopping(StopCause.QUEUE_REFUSED, 0.0, TOO_LARGE))
    assert isinstance(decision, Finish)
    assert (decision.exit_code, decision.reason) == (ExitCode.ENVIRONMENT_UNFIT, "QueueRefused")


def test_a_preempted_gang_gets_its_grace_and_costs_no_restart() -> None:
    agents, state = (running(0), running(1)), a_state()
    assert act(TAKEN, agents=agents, state=state) == StopGang(StopCause.PREEMPTED)
    still = Stopping(StopCause.PREEMPTED, 6.0, TAKEN.message)
    assert act(TAKEN, agents=agents, state=state, stopping=still) == Wait()
    decision = act(TAKEN, agents=(exited(0, 83), exited(1, 83)), state=state, stopping=still)
    assert decision == NewGeneration(
        "Preempted", "Preempted: to make room", charged=False, exit_code=ExitCode.PREEMPTED
    )  # fmt: skip


def test_a_gang_that_left_before_the_launcher_looked_was_preempted_all_the_same() -> None:
    decision = act(TAKEN, agents=(exited(0, 83), exited(1, 83)), state=a_state())
    assert isinstance(decision, NewGeneration)
    assert (decision.reason, decision.charged) == ("Preempted", False)


def test_success_just_before_the_preemption_is_success() -> None:
    decision = act(TAKEN, agents=(exited(0, 0), exited(1, 83)), state=a_state())
    assert isinstance(decision, Finish)
    assert decision.exit_code is ExitCode.OK


def test_a_stop_during_a_preemption_is_a_stop() -> None:
    still = Stopping(StopCause.PREEMPTED, 1.0)
    agents = (running(0), running(1))
    assert act(TAKEN, agents=agents, stopping=still, intent=StopCause.REQUESTED) == StopGang(StopCause.REQUESTED)
    ended = (exited(0, 83), exited(1, 83))
    decision = act(TAKEN, agents=ended, stopping=Stopping(StopCause.REQUESTED, 1.0))
    assert isinstance(decision, Finish)
    assert decision.reason == "StopRequested"


def test_an_eviction_for_unused_quota_is_charged() -> None:
    evicted = QueueStanding(QueuePhase.TAKEN, "PodsReadyTimeout", "PodsReadyTimeout: too late", is_free=False)
    decision = act(evicted, agents=(exited(0, 83), exited(1, 83)), state=a_state())
    assert isinstance(decision, NewGeneration)
    assert (decision.reason, decision.charged) == ("Evicted", True)


def test_waits_after_preemptions_share_one_limit_and_others_have_their_own() -> None:
    earlier = [
        a_generation(0, begin_reason="Start", queued_seconds=70.0),
        a_generation(1, begin_reason="Preempted", queued_seconds=30.0),
        a_generation(2, begin_reason="NodeLost", queued_seconds=90.0),
        a_generation(3, begin_reason="Preempted", queued_seconds=50.0),
    ]
    assert requeue_seconds(earlier, generation=4, reason="NodeLost", limit=100.0) == 100.0
    assert requeue_seconds(earlier, generation=4, reason="Preempted", limit=100.0) == 20.0
    assert requeue_seconds(earlier, generation=3, reason="Preempted", limit=100.0) == 70.0
    assert requeue_seconds(earlier, generation=4, reason="Preempted", limit=60.0) == 0.0
