"""What the pods of a gang say about its agents: from objects of the API to AgentStatus. Pure.

The exit code is the program container's, which the guard takes from its agent. A pod's phase is not asked: it says
Failed for an evicted pod and for a stopped one alike.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from components.cluster.fields import Object, asked_to_go_at, condition, moment
from components.contracts.cluster_names import COMPLETION_INDEX_ANNOTATION
from components.errors import ExitCode
from components.launch.backend import NODE_LOST, POD_DELETED, AgentPhase, AgentStatus, last_line
from components.launch.pod_template import PROGRAM
from components.runtime.processes import signal_name

_TAKEN_FOR_ITS_NODE = ("DeletionByTaintManager", "DeletionByPodGC")
"""Reasons of DisruptionTarget that mean the node, not somebody's wish."""

MAX_TEXT = 1000
"""Of what the cluster says: a runtime repeats a long image name before it comes to what is wrong with it."""


@dataclass(frozen=True)
class SeenPod:
    """A pod as it was last seen."""

    object: Object
    is_gone: bool = False
    """The API has it no more."""


@dataclass(frozen=True)
class GangView:
    """What is known of a generation's objects at one moment."""

    num_nodes: int
    pods: Sequence[SeenPod]
    unready_nodes: frozenset[str] = frozenset()
    """Kubernetes nodes that do not answer; empty where nodes may not be looked at."""
    is_over: bool = False
    """The gang's own object is gone, being deleted, or has ended: no pod will be created any more."""
    is_removed: bool = False
    """We asked for its end."""
    warnings: Mapping[str, str] = field(default_factory=dict)
    """What events last complained about, by the name of the object."""


def agent_statuses(view: GangView) -> tuple[AgentStatus, ...]:
    """Every node of the gang, by rank."""
    newest = _newest_by_rank(view.pods)
    first_end = min((end for pod in newest.values() if (end := _own_end(pod)) is not None), default=None)
    asked = [at for pod in newest.values() if (at := asked_to_go_at(pod.object)) is not None]
    return tuple(
        _status(view, node_rank, newest[node_rank], first_end, min(asked, default=None))
        if node_rank in newest
        else _without_pod(view, node_rank)
        for node_rank in range(view.num_nodes)
    )


def _newest_by_rank(pods: Iterable[SeenPod]) -> dict[int, SeenPod]:
    """A generation's Job never replaces a pod, but an old controller might: the newest counts."""
    found: dict[int, SeenPod] = {}
    for pod in sorted(pods, key=lambda pod: str(pod.object["metadata"].get("creationTimestamp", ""))):
        index = (pod.object["metadata"].get("annotations") or {}).get(COMPLETION_INDEX_ANNOTATION, "")
        if index.isdigit():
            found[int(index)] = pod
    return found


def _status(
    view: GangView, node_rank: int, pod: SeenPod, first_end: datetime | None, first_asked: datetime | None
) -> AgentStatus:  # fmt: skip
    node = str(pod.object.get("spec", {}).get("nodeName", ""))
    status = _look(pod, node_rank)
    # Who was asked to go by us, or after another one had ended or been asked, is not to blame for how it goes.
    asked_at = asked_to_go_at(pod.object)
    followed = asked_at is not None and (
        view.is_removed
        or (first_end is not None and asked_at >= first_end)
        or (first_asked is not None and asked_at > first_asked)
    )
    reason = _disruption_reason(pod.object)
    is_lost = status.exit_code is None and (node in view.unready_nodes or reason in _TAKEN_FOR_ITS_NODE)
    disruption = reason or (POD_DELETED if asked_at is not None and not followed else "")
    if view.is_removed and not is_lost:
        disruption = ""
    if is_lost and status.has_exited:
        disruption, followed = NODE_LOST, False
        status = replace(status, signal=None, fate=f"went with its Kubernetes node {node}")
    waiting = status.waiting or view.warnings.get(str(pod.object["metadata"]["name"]), "")
    return replace(
        status, where=node, disruption=disruption, node_lost=is_lost and not status.has_exited,
        ended_by_us=status.has_exited and followed and status.exit_code is None, followed=followed,
        waiting=waiting if status.phase is AgentPhase.PENDING else "",
    )  # fmt: skip


def _without_pod(view: GangView, node_rank: int) -> AgentStatus:
    if view.is_over or view.is_removed:
        return AgentStatus(
            node_rank, AgentPhase.EXITED, ended_by_us=view.is_removed, fate="never had a pod, or it is gone"
        )
    told = "; ".join(view.warnings.values())
    return AgentStatus(node_rank, AgentPhase.PENDING, waiting=f"it has no pod{f': {told}' if told else ''}")


def _look(pod: SeenPod, node_rank: int) -> AgentStatus:
    """The agent as its pod's containers show it."""
    status: Object = pod.object.get("status") or {}
    program = _container(status.get("containerStatuses"), PROGRAM)
    state: Object = program.get("state") or {}
    if "terminated" in state:
        return _ended(node_rank, state["terminated"])
    if status.get("phase") in ("Failed", "Succeeded"):
        return AgentStatus(node_rank, AgentPhase.EXITED, fate=_why_never_started(status))
    if pod.is_gone:
        return AgentStatus(node_rank, AgentPhase.EXITED, fate="lost its pod: it was deleted")
    if "running" in state:
        return AgentStatus(node_rank, AgentPhase.RUNNING)
    return AgentStatus(node_rank, AgentPhase.PENDING, waiting=_why_not_yet(status))


def _ended(node_rank: int, terminated: Object) -> AgentStatus:
    code, reason = int(terminated.get("exitCode", 0)), str(terminated.get("reason", ""))
    words = last_line(str(terminated.get("message", "")))
    if reason == "ContainerStatusUnknown":
        return AgentStatus(node_rank, AgentPhase.EXITED, fate="is gone, and its kubelet does not know how it ended")
    if code in ExitCode.__members__.values():
        return AgentStatus(node_rank, AgentPhase.EXITED, exit_code=code, last_line=words if code else "")
    if reason == "OOMKilled":
        return AgentStatus(node_rank, AgentPhase.EXITED, signal="SIGKILL", last_line="out of memory (OOMKilled)")
    if code > 128 and reason not in ("StartError", "ContainerCannotRun"):
        return AgentStatus(node_rank, AgentPhase.EXITED, signal=signal_name(code - 128), last_line=words)
    unfit = code == 1 or reason in ("StartError", "ContainerCannotRun")
    return AgentStatus(node_rank, AgentPhase.EXITED, exit_code=code, last_line=words, is_unstartable=unfit)


def _why_never_started(status: Object) -> str:
    """A pod that ended before its program began: evicted, refused by the kubelet, or its init step failed."""
    for item in status.get("initContainerStatuses") or ():
        ended = (item.get("state") or {}).get("terminated")
        if ended and ended.get("exitCode"):
            words = last_line(str(ended.get("message", "")))
            text = f"failed before its program began: {item['name']} exited with code {ended['exitCode']}"
            return text + (f" ({words})" if words else "")
    told = ": ".join(str(status[key]) for key in ("reason", "message") if status.get(key))
    return f"was refused or evicted: {told}"[:MAX_TEXT] if told else "ended before its program began"


def _why_not_yet(status: Object) -> str:
    for item in [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]:
        waiting = (item.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") not in (None, "PodInitializing", "ContainerCreating"):
            return f"{item['name']}: {waiting['reason']}: {waiting.get('message', '')}"[:MAX_TEXT]
    scheduled = condition({"status": status}, "PodScheduled")
    if scheduled.get("status") == "False":
        return f"{scheduled.get('reason', '')}: {scheduled.get('message', '')}"[:MAX_TEXT]
    return ""


# --- why a pod goes


def _own_end(pod: SeenPod) -> datetime | None:
    """When it ended, if it ended before anybody asked it to go."""
    status: Object = pod.object.get("status") or {}
    ended = (_container(status.get("containerStatuses"), PROGRAM).get("state") or {}).get("terminated")
    finished_at = moment((ended or {}).get("finishedAt"))
    if finished_at is None:
        return None
    asked_at = asked_to_go_at(pod.object)
    return finished_at if asked_at is None or asked_at > finished_at else None


def _disruption_reason(pod: Object) -> str:
    """Why the cluster takes the pod away, as its DisruptionTarget condition says; empty when it does not."""
    target = condition(pod, "DisruptionTarget")
    return str(target.get("reason") or "Disrupted") if target.get("status") == "True" else ""


# --- small parts


def _container(statuses: Any, name: str) -> Object:
    return next((item for item in statuses or () if item.get("name") == name), {})
