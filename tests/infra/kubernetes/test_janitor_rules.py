"""The janitor ends what nobody else can end, and nothing else."""

from typing import Any

from infra.kubernetes.janitor.rules import Action, Limits, Memory, Sight, decide

LIMITS = Limits(force_after_seconds=120.0, pending_seconds=1800.0)


def a_pod(name: str = "p", *, node: str = "n1", phase: str = "Running", gang: str = "", **metadata: Any) -> Any:
    labels = {"argosy.dev/experiment": "exp", **({"argosy.dev/gang": gang} if gang else {})}
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": labels, **metadata},
        "spec": {"nodeName": node}, "status": {"phase": phase},
    }  # fmt: skip


def a_gang(**metadata: Any) -> Any:
    annotations = {"argosy.dev/workflow": "wf", "argosy.dev/workflow-uid": "w1"}
    return {"kind": "JobSet", "metadata": {"name": "g", "uid": "uid-g", "annotations": annotations, **metadata}}


def a_workflow(**status: Any) -> dict[str, Any]:
    return {"wf": {"metadata": {"name": "wf", "uid": "w1"}, "status": status}}


def sight(pods: Any = (), gangs: Any = (), workflows: Any = None, unready: tuple[str, ...] = ()) -> Sight:
    return Sight(list(pods), list(gangs), workflows or {}, frozenset(unready))


def later(seen: Sight, seconds: float, memory: Memory | None = None) -> list[Action]:
    """What is done when things have looked like this for so long."""
    memory = memory or Memory()
    assert decide(seen, memory, limits=LIMITS, now=1000.0) == []
    return decide(seen, memory, limits=LIMITS, now=1000.0 + seconds)


def names(actions: list[Action]) -> list[tuple[str, str]]:
    return [(action.verb, action.name) for action in actions]


def test_a_stage_pod_on_a_dead_node_is_forced_after_the_limit_and_not_before() -> None:
    seen = sight([a_pod()], unready=("n1",))
    assert later(seen, 119.0) == []
    assert names(later(seen, 120.0)) == [("force-delete", "p")]


def test_a_node_that_answers_again_starts_anew() -> None:
    memory, dead = Memory(), sight([a_pod()], unready=("n1",))
    assert later(dead, 100.0, memory) == []
    assert decide(sight([a_pod()]), memory, limits=LIMITS, now=1110.0) == []
    assert decide(dead, memory, limits=LIMITS, now=1130.0) == []


def test_a_worker_pod_is_forced_only_with_its_gangs_permission_and_in_its_own_time() -> None:
    allowed = a_pod("yes", gang="g", annotations={"argosy.dev/force-delete-after-seconds": "60"})
    seen = sight([allowed, a_pod("no", gang="g")], unready=("n1",))
    assert names(later(seen, 60.0)) == [("force-delete", "yes")]
    assert names(later(seen, 9999.0)) == [("force-delete", "yes")]


def test_a_pod_that_has_ended_holds_nothing_up_unless_it_is_stuck_going() -> None:
    done, stuck = a_pod("done", phase="Succeeded"), a_pod("stuck", phase="Failed", deletionTimestamp="x")
    assert names(later(sight([done, stuck], unready=("n1",)), 500.0)) == [("force-delete", "stuck")]


def test_a_stage_pod_that_nobody_starts_is_ended_and_a_worker_pod_is_its_launchers() -> None:
    pods = [a_pod("stage", phase="Pending", node=""), a_pod("worker", phase="Pending", node="", gang="g")]
    assert names(later(sight(pods), 1800.0)) == [("delete", "stage")]


def test_a_pending_limit_of_its_own_counts() -> None:
    pod = a_pod("stage", phase="Pending", node="", annotations={"argosy.dev/pending-limit-seconds": "30"})
    assert names(later(sight([pod]), 30.0)) == [("delete", "stage")]


def waiting(stage: str = "shard", name: str = "stage") -> Any:
    """A stage's pod that waits for a place, of the Workflow `wf`."""
    pod = a_pod(name, phase="Pending", node="")
    pod["metadata"]["labels"] |= {"workflows.argoproj.io/workflow": "wf", "argosy.dev/stage": stage}
    return pod


def told(shutdown: str | None) -> Any:
    return {"wf": {**a_workflow(phase="Running")["wf"], "spec": {"shutdown": shutdown}}}


def test_a_workflow_whose_stage_nobody_starts_is_stopped_since_argo_would_make_a_deleted_pod_anew() -> None:
    pods = [waiting(), waiting("preflight", "another")]
    (action,) = later(sight(pods, workflows=told(None)), 1800.0)
    assert (action.verb, action.kind, action.name, action.uid) == ("stop", "Workflow", "wf", "w1")
    assert action.why == "pod another has been Pending for 1800 s"


def test_one_that_is_stopping_is_argos_unless_its_exit_handler_waits_as_well() -> None:
    assert later(sight([waiting()], workflows=told("Stop")), 9999.0) == []
    assert names(later(sight([waiting("finish")], workflows=told("Stop")), 1800.0)) == [("terminate", "wf")]
    assert later(sight([waiting("finish")], workflows=told("Terminate")), 9999.0) == []


def test_a_gang_of_a_running_workflow_is_left_alone() -> None:
    assert later(sight(gangs=[a_gang()], workflows=a_workflow(phase="Running")), 9999.0) == []


def test_a_gang_whose_workflow_is_over_or_gone_or_another_goes() -> None:
    over = sight(gangs=[a_gang()], workflows=a_workflow(phase="Failed", finishedAt="x"))
    assert names(later(over, 30.0)) == [("delete", "g")]
    assert later(over, 29.0) == []
    assert names(later(sight(gangs=[a_gang()]), 30.0)) == [("delete", "g")]
    another = {"wf": {"metadata": {"name": "wf", "uid": "w2"}, "status": {"phase": "Running"}}}
    assert names(later(sight(gangs=[a_gang()], workflows=another), 30.0)) == [("delete", "g")]


def test_a_gang_that_nobodys_workflow_made_is_not_the_janitors() -> None:
    assert later(sight(gangs=[a_gang(annotations={})]), 9999.0) == []
