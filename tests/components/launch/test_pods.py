"""What pods, nodes and events show of a gang becomes the right agent states, and the first failure gets the blame."""

from typing import Any

import pytest

from components.contracts.cluster_names import COMPLETION_INDEX_ANNOTATION
from components.errors import ExitCode
from components.launch.backend import AgentPhase
from components.launch.failure_policy import Budget, Ending, Finish, NewGeneration, decide
from components.launch.pods import GangView, SeenPod, agent_statuses
from tests.components.launch.values import a_state

BUDGET = Budget(0, 2, replaces_nodes=True)


def a_pod(
    index: int, state: dict[str, Any] | None = None, *, node: str = "node-a", deleted_at: str = "", grace: int = 40,
    disruption: str = "", is_gone: bool = False, **status: Any,
) -> SeenPod:  # fmt: skip
    metadata: dict[str, Any] = {
        "name": f"g-{index}-abcde", "uid": f"u{index}", "creationTimestamp": "2026-11-29T12:00:00Z",
        "annotations": {COMPLETION_INDEX_ANNOTATION: str(index)},
    }  # fmt: skip
    if deleted_at:
        metadata |= {"deletionTimestamp": deleted_at, "deletionGracePeriodSeconds": grace}
    if disruption:
        status["conditions"] = [{"type": "DisruptionTarget", "status": "True", "reason": disruption}]
    if state is not None:
        status["containerStatuses"] = [{"name": "program", "state": state}]
    return SeenPod({"metadata": metadata, "spec": {"nodeName": node}, "status": status}, is_gone)


def running(index: int, **about: Any) -> SeenPod:
    return a_pod(index, {"running": {}}, **about)


def ended(index: int, code: int, at: str = "2026-11-29T12:10:00Z", **about: Any) -> SeenPod:
    how = {key: about.pop(key) for key in ("reason", "message") if key in about}
    return a_pod(index, {"terminated": {"exitCode": code, "finishedAt": at, **how}}, **about)


def view(*pods: SeenPod, **about: Any) -> GangView:
    return GangView(num_nodes=about.pop("num_nodes", len(pods)), pods=pods, **about)


def test_exit_codes_come_from_the_programs_container_and_not_from_the_pods_phase() -> None:
    zero, one = agent_statuses(view(ended(0, 0, phase="Running"), ended(1, 90, phase="Failed", message="a\nrank 1\n")))
    assert (zero.phase, zero.exit_code) == (AgentPhase.EXITED, 0)
    assert (one.exit_code, one.last_line) == (90, "rank 1")


def test_a_killed_container_has_a_signal_and_an_oom_kill_is_named() -> None:
    first, second = agent_statuses(view(ended(0, 137), ended(1, 137, reason="OOMKilled")))
    assert first.signal == "SIGKILL"
    assert second.ending() == 'was killed by SIGKILL (last line: "out of memory (OOMKilled)")'


def test_a_node_without_a_pod_waits_for_one_and_events_say_why() -> None:
    warnings = {"g": "FailedCreate: exceeded quota: gpus"}
    _, one = agent_statuses(view(running(0), num_nodes=2, warnings=warnings))
    assert one.phase is AgentPhase.PENDING
    assert one.waiting == "it has no pod: FailedCreate: exceeded quota: gpus"


@pytest.mark.parametrize(
    ("status", "waiting"),
    [
        (
            {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                             "message": "0/2 nodes are available: 2 Insufficient cpu."}]},
            "Unschedulable: 0/2 nodes are available: 2 Insufficient cpu.",
        ),
        (
            {"initContainerStatuses": [{"name": "agent", "state": {"waiting": {
                "reason": "ImagePullBackOff", "message": "not found"}}}]},
            "agent: ImagePullBackOff: not found",
        ),
    ],
)  # fmt: skip
def test_a_pod_that_does_not_start_says_what_it_waits_for(status: dict[str, Any], waiting: str) -> None:
    (zero,) = agent_statuses(view(a_pod(0, **status)))
    assert (zero.phase, zero.waiting) == (AgentPhase.PENDING, waiting)


def test_survivors_that_were_deleted_after_the_first_failure_are_not_blamed() -> None:
    # The Job controller asked pod 1 to go at 12:10:01, when pod 0 had ended.
    pods = [ended(0, 90), ended(1, 137, "2026-11-29T12:10:41Z", deleted_at="2026-11-29T12:10:41Z")]
    zero, one = agent_statuses(view(*pods))
    assert (zero.ended_by_us, one.ended_by_us) == (False, True)
    assert one.disruption == ""


def test_what_ends_after_our_own_request_is_our_doing() -> None:
    pods = [ended(rank, 137, deleted_at="2026-11-29T12:10:40Z") for rank in (0, 1)]
    assert all(agent.ended_by_us for agent in agent_statuses(view(*pods, is_removed=True)))


def test_a_verdict_counts_though_its_pod_was_told_to_go_in_the_same_second() -> None:
    pods = [ended(0, 90, deleted_at="2026-11-29T12:10:40Z"), ended(1, 90)]
    decision = decide(Ending(agent_statuses(view(*pods)), a_state(exit_code=90, reason="WorkerFailed")), BUDGET)
    assert isinstance(decision, Finish)
    assert (decision.exit_code, decision.reason) == (ExitCode.WORKER_FAILED, "WorkerFailed")


def test_a_gang_that_stopped_because_one_pod_died_is_not_a_stop() -> None:
    pods = [ended(0, 83, "2026-11-29T12:10:05Z", deleted_at="2026-11-29T12:10:41Z"), ended(1, 137)]
    decision = decide(Ending(agent_statuses(view(*pods)), a_state(exit_code=83, reason="StopRequested")), BUDGET)
    assert isinstance(decision, NewGeneration)
    assert (decision.reason, decision.seen) == ("AgentLost", "the agent of node 1 was killed by SIGKILL")


def test_an_evicted_pod_was_taken_by_the_cluster_and_costs_no_restart() -> None:
    pods = [
        ended(0, 83),
        ended(1, 83, "2026-11-29T12:10:01Z", deleted_at="2026-11-29T12:10:30Z", disruption="EvictionByEvictionAPI"),
    ]
    state = a_state(exit_code=83, reason="StopRequested")
    decision = decide(Ending(agent_statuses(view(*pods)), state), BUDGET)
    assert decision == NewGeneration(
        "Preempted", "node 1 (on node-a) was taken away by the cluster: EvictionByEvictionAPI", charged=False
    )


@pytest.mark.parametrize("second", ["30", "31"])
def test_the_job_controllers_own_deletions_after_an_eviction_are_nobodys(second: str) -> None:
    # Seen on a cluster: the evicted pod went, and the Job controller deleted the other before that had ended, too.
    pods = [
        ended(0, 83, "2026-11-29T12:10:05Z", deleted_at=f"2026-11-29T12:10:{second}Z", grace=30),
        ended(1, 83, deleted_at="2026-11-29T12:10:30Z", grace=30, disruption="EvictionByEvictionAPI"),
    ]
    decision = decide(Ending(agent_statuses(view(*pods)), a_state(exit_code=83, reason="StopRequested")), BUDGET)
    assert isinstance(decision, NewGeneration)
    assert (decision.reason, decision.charged) == ("Preempted", False)
    assert "node 1" in decision.seen


def test_a_pod_that_somebody_deleted_costs_a_restart() -> None:
    pods = [ended(0, 83), ended(1, 83, "2026-11-29T12:10:01Z", deleted_at="2026-11-29T12:10:30Z")]
    decision = decide(Ending(agent_statuses(view(*pods)), a_state(exit_code=83, reason="StopRequested")), BUDGET)
    assert isinstance(decision, NewGeneration)
    assert (decision.reason, decision.charged) == ("PodDeleted", True)


def test_a_limit_that_was_reached_is_no_preemption() -> None:
    pods = [ended(0, 83), ended(1, 83, deleted_at="2026-11-29T12:10:30Z", disruption="PreemptionByScheduler")]
    decision = decide(Ending(agent_statuses(view(*pods)), a_state(exit_code=83, reason="RunDeadline")), BUDGET)
    assert isinstance(decision, Finish)
    assert decision.reason == "RunDeadline"


def test_a_pod_on_a_node_that_does_not_answer_is_lost_until_its_object_is_gone() -> None:
    lost = running(1, node="node-b", deleted_at="2026-11-29T12:10:30Z", disruption="DeletionByTaintManager")
    _, one = agent_statuses(view(ended(0, 92), lost, unready_nodes=frozenset({"node-b"})))
    assert (one.phase, one.node_lost) == (AgentPhase.RUNNING, True)


def test_a_lost_node_leads_to_a_generation_without_it() -> None:
    gone = running(1, node="node-b", disruption="DeletionByTaintManager", is_gone=True)
    statuses = agent_statuses(view(ended(0, 92), gone, is_removed=True))
    decision = decide(Ending(statuses, a_state(exit_code=92, reason="AgentLost")), BUDGET)
    assert decision == NewGeneration(
        "NodeLost", "node 1 (on node-b) was lost: its machine does not answer any more", charged=True,
        excluded_nodes=(1,),
    )  # fmt: skip
    last = decide(Ending(statuses, None), Budget(2, 2, replaces_nodes=True))
    assert isinstance(last, Finish)
    assert (last.exit_code, last.reason) == (ExitCode.NODE_FAULT, "NodeLost")


def test_an_image_without_python3_is_not_tried_again() -> None:
    message = 'exec: "python3": executable file not found in $PATH'
    pods = [ended(0, 128, reason="StartError", message=message)]
    decision = decide(Ending(agent_statuses(view(*pods)), None), BUDGET)
    assert isinstance(decision, Finish)
    assert (decision.exit_code, decision.reason) == (ExitCode.ENVIRONMENT_UNFIT, "ImageUnfit")
    assert "python3" in decision.seen


def test_a_pod_that_was_refused_by_its_kubelet_says_so() -> None:
    (zero,) = agent_statuses(view(a_pod(0, phase="Failed", reason="OutOfcpu", message="Node didn't have enough")))
    assert zero.ending() == "was refused or evicted: OutOfcpu: Node didn't have enough"


def test_a_failed_init_step_is_named() -> None:
    status = {"phase": "Failed", "initContainerStatuses": [
        {"name": "files", "state": {"terminated": {"exitCode": 1, "message": "No space left on device"}}}]}  # fmt: skip
    (zero,) = agent_statuses(view(a_pod(0, **status)))
    assert "files exited with code 1 (No space left on device)" in zero.ending()


def test_once_the_gang_is_over_a_missing_pod_will_not_come() -> None:
    zero, one = agent_statuses(view(ended(0, 90), num_nodes=2, is_over=True))
    assert zero.exit_code == 90
    assert one.has_exited
