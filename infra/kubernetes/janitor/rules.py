"""What no stage can do: end pods whose node is gone, runs whose stage nobody will start, gangs without a run. Pure.

Kubernetes, JobSet and Argo all wait for ever for a node that does not answer, and Argo for a pod that stays Pending:
deleted, it is made anew, so the Workflow is told to stop.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from components.contracts.cluster_names import (
    FINISH,
    FORCE_AFTER_ANNOTATION,
    GANG_LABEL,
    PENDING_LIMIT_ANNOTATION,
    PENDING_LIMIT_SECONDS,
    STAGE_LABEL,
    WORKFLOW_ANNOTATION,
    WORKFLOW_LABEL,
    WORKFLOW_UID_ANNOTATION,
)  # fmt: skip

Object = Mapping[str, Any]

ORPHAN_SECONDS = 30.0
"""A run that has just ended still has its exit handler, which stops the gang more gently."""


@dataclass(frozen=True)
class Sight:
    """Everything of the namespace at one moment."""

    pods: Sequence[Object]
    gangs: Sequence[Object]
    """JobSets, and Jobs that no JobSet owns."""
    workflows: Mapping[str, Object]
    """By name."""
    unready_nodes: frozenset[str]


@dataclass(frozen=True)
class Limits:
    """For pods that do not say otherwise."""

    force_after_seconds: float = 120.0
    pending_seconds: float = PENDING_LIMIT_SECONDS


@dataclass(frozen=True)
class Action:
    """One thing to do."""

    verb: Literal["force-delete", "delete", "stop", "terminate"]
    """`terminate`: without the exit handler."""
    kind: Literal["Pod", "JobSet", "Job", "Workflow"]
    name: str
    uid: str
    why: str


@dataclass
class Memory:
    """Since when something has been seen as it is, by one steady clock: no two machines' clocks are compared."""

    since: dict[tuple[str, str], float] = field(default_factory=dict)

    def seconds(self, what: str, uids: Iterable[str], now: float) -> dict[str, float]:
        """How long `what` has been true of each of `uids`; of others it is forgotten."""
        present = set(uids)
        for key in [key for key in self.since if key[0] == what and key[1] not in present]:
            del self.since[key]
        return {uid: now - self.since.setdefault((what, uid), now) for uid in present}


def decide(sight: Sight, memory: Memory, *, limits: Limits, now: float) -> list[Action]:
    """What to do now. `now` is seconds on a steady clock."""
    return [
        *_pods_of_lost_nodes(sight, memory, limits, now),
        *_pods_nobody_starts(sight, memory, limits, now),
        *_gangs_without_run(sight, memory, now),
    ]


def _pods_of_lost_nodes(sight: Sight, memory: Memory, limits: Limits, now: float) -> Iterable[Action]:
    down = memory.seconds("unready", sight.unready_nodes, now)
    for pod in sight.pods:
        node = str((pod.get("spec") or {}).get("nodeName", ""))
        after = _force_after(pod, limits)
        if node in down and after is not None and down[node] >= after and _holds_something_up(pod):
            why = f"its node {node} has not answered for {down[node]:.0f} s"
            yield Action("force-delete", "Pod", _name(pod), _uid(pod), why)


def _force_after(pod: Object, limits: Limits) -> float | None:
    """None: nobody may touch it. A stage's pod can always be repeated; a gang's says for itself."""
    told = _seconds(pod, FORCE_AFTER_ANNOTATION)
    return told if told is not None or GANG_LABEL in _labels(pod) else limits.force_after_seconds


def _holds_something_up(pod: Object) -> bool:
    ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    return not ended or "deletionTimestamp" in pod["metadata"]


def _pods_nobody_starts(sight: Sight, memory: Memory, limits: Limits, now: float) -> Iterable[Action]:
    waiting = {_uid(pod): pod for pod in sight.pods if _is_pending_stage(pod)}
    chosen: dict[str, Action] = {}
    for uid, seconds in sorted(memory.seconds("pending", waiting, now).items()):
        pod = waiting[uid]
        told = _seconds(pod, PENDING_LIMIT_ANNOTATION)
        if seconds >= (limits.pending_seconds if told is None else told):
            action = _end_what_waits(pod, sight.workflows, f"has been Pending for {seconds:.0f} s")
            if action is not None:
                chosen.setdefault(action.name, action)
    return chosen.values()


def _end_what_waits(pod: Object, workflows: Mapping[str, Object], why: str) -> Action | None:
    """Stop its Workflow; what the exit handler then waits for is ended as well."""
    workflow = workflows.get(_labels(pod).get(WORKFLOW_LABEL, ""))
    if workflow is None:
        return Action("delete", "Pod", _name(pod), _uid(pod), f"it {why}")
    shutdown = (workflow.get("spec") or {}).get("shutdown")
    why = f"pod {_name(pod)} {why}"
    if not shutdown:
        return Action("stop", "Workflow", _name(workflow), _uid(workflow), why)
    if shutdown == "Stop" and _labels(pod).get(STAGE_LABEL) == FINISH:
        return Action("terminate", "Workflow", _name(workflow), _uid(workflow), why)
    return None  # Argo is about to


def _is_pending_stage(pod: Object) -> bool:
    is_stage = GANG_LABEL not in _labels(pod)
    is_pending = (pod.get("status") or {}).get("phase") == "Pending"
    return is_stage and is_pending and "deletionTimestamp" not in pod["metadata"]


def _gangs_without_run(sight: Sight, memory: Memory, now: float) -> Iterable[Action]:
    orphans = {_uid(gang): (gang, why) for gang in sight.gangs if (why := _why_orphaned(gang, sight.workflows))}
    for uid, seconds in memory.seconds("orphaned", orphans, now).items():
        gang, why = orphans[uid]
        if seconds >= ORPHAN_SECONDS:
            kind: Literal["JobSet", "Job"] = "JobSet" if gang.get("kind") == "JobSet" else "Job"
            yield Action("delete", kind, _name(gang), uid, why)


def _why_orphaned(gang: Object, workflows: Mapping[str, Object]) -> str:
    """Empty while its Workflow may still want it, and for a gang that was made without one."""
    annotations = gang["metadata"].get("annotations") or {}
    name, uid = annotations.get(WORKFLOW_ANNOTATION, ""), annotations.get(WORKFLOW_UID_ANNOTATION, "")
    if not name or "deletionTimestamp" in gang["metadata"]:
        return ""
    workflow = workflows.get(name)
    if workflow is None or workflow["metadata"]["uid"] != uid:
        return f"its Workflow {name} does not exist any more"
    status = workflow.get("status") or {}
    return f"its Workflow {name} is over ({status.get('phase')})" if status.get("finishedAt") else ""


def _seconds(item: Object, annotation: str) -> float | None:
    text = str((item["metadata"].get("annotations") or {}).get(annotation, ""))
    try:
        return float(text) if text else None
    except ValueError:
        return None


def _labels(item: Object) -> Mapping[str, str]:
    found: Mapping[str, str] = item["metadata"].get("labels") or {}
    return found


def _name(item: Object) -> str:
    return str(item["metadata"]["name"])


def _uid(item: Object) -> str:
    return str(item["metadata"]["uid"])
