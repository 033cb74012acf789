"""Builders of evidence by hand: a run on a cluster whose gang of two starts, with one thing changed.

Shapes and wordings are those of the documentation and sources of Kubernetes, containerd and Kueue; what a real cluster
said lies in `cases/`.
"""

from typing import Any

from components.contracts.lifecycle import RunState
from components.diagnosis.observed import Observed
from tests.runs import RUN, a_gang, a_launch, a_node, a_view, an_engine, at

Object = dict[str, Any]
NAMESPACE = "ml"
GANG = f"{RUN}-g1"


def meta(name: str, *, uid: str = "", created: float = 10, **changes: Any) -> Object:
    return {"name": name, "namespace": NAMESPACE, "uid": uid or f"uid-{name}", "creationTimestamp": time(created),
            **changes}  # fmt: skip


def time(seconds: float) -> str:
    """As the API writes it: whole seconds."""
    return at(seconds)[:19] + "Z"


def a_pod(rank: int = 0, *, generation: int = 1, uid: str = "", node: str = "", **changes: Any) -> Object:
    """A gang's pod: unscheduled, or on `node` with containers that have not begun."""
    name = f"{RUN}-g{generation}-n-0-{rank}-abcde"
    scheduled = {"type": "PodScheduled", "status": "True" if node else "False", "lastTransitionTime": time(12)}
    pod: Object = {
        "metadata": meta(
            name, uid=uid,
            labels={"argosy.dev/run": RUN, "argosy.dev/gang": f"{RUN}-g{generation}",
                    "argosy.dev/generation": str(generation), "job-name": f"{RUN}-g{generation}-n-0"},
            annotations={"batch.kubernetes.io/job-completion-index": str(rank)},
        ),
        "spec": {
            "containers": [{"name": "program", "image": "r/train:1", "resources": {"limits": {"nvidia.com/gpu": "8"}}}],
            **({"nodeName": node} if node else {}),
        },
        "status": {"phase": "Pending", "conditions": [scheduled]},
    }  # fmt: skip
    return merged(pod, changes)


def merged(old: Any, new: Any) -> Any:
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    return {**old, **{key: merged(old.get(key), value) for key, value in new.items()}}


def unscheduled(message: str, rank: int = 0, *, reason: str = "Unschedulable", spec: Object | None = None) -> Object:
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message,
                 "lastTransitionTime": time(12)}  # fmt: skip
    return a_pod(rank, status={"conditions": [condition]}, spec=spec or {})


def waiting(reason: str, message: str = "", rank: int = 0) -> Object:
    state = {"name": "program", "image": "r/train:1", "state": {"waiting": {"reason": reason, "message": message}}}
    return a_pod(rank, node="gpu-1", status={"containerStatuses": [state]})


def creating(rank: int = 0, *, uid: str = "") -> Object:
    state = {"name": "program", "state": {"waiting": {"reason": "ContainerCreating"}}}
    return a_pod(rank, uid=uid, node="gpu-1", status={"containerStatuses": [state]})


def running(rank: int = 0, *, node: str = "gpu-1", **changes: Any) -> Object:
    state = {"name": "program", "ready": True, "state": {"running": {"startedAt": time(20)}}}
    return merged(a_pod(rank, node=node, status={"phase": "Running", "containerStatuses": [state]}), changes)


def ended(
    rank: int, code: int, reason: str, seconds: float, *, asked: float | None = None, node: str = "g", said: str = ""
) -> Object:
    state = {"terminated": {"exitCode": code, "reason": reason, "finishedAt": time(seconds), "message": said}}
    pod = a_pod(rank, node=node, status={"phase": "Failed", "containerStatuses": [{"name": "program", "state": state}]})
    if asked is not None:
        pod["metadata"] |= {"deletionTimestamp": time(asked + 30), "deletionGracePeriodSeconds": 30}
    return pod


def refused(reason: str, message: str) -> Object:
    return a_pod(node="gpu-1", status={"phase": "Failed", "reason": reason, "message": message})


def taken(reason: str, message: str = "", *, node: str = "gpu-1") -> Object:
    target = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message,
              "lastTransitionTime": time(40)}  # fmt: skip
    return running(node=node, status={"conditions": [target]})


def an_event(pod: Object, reason: str, message: str, seconds: float = 30, **changes: Any) -> Object:
    return {
        "metadata": {"name": f"e-{reason}-{seconds}"}, "type": "Warning", "reason": reason, "message": message,
        "firstTimestamp": time(seconds), "lastTimestamp": time(seconds), "count": 1,
        "involvedObject": {"kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}, **changes,
    }  # fmt: skip


def a_cluster_node(name: str, *, gpus: int = 8, ready: str = "True", taint: str = "", **labels: str) -> Object:
    taints = [{"key": taint, "effect": "NoSchedule"}] if taint else []
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": labels}, "spec": {"taints": taints},
        "status": {
            "allocatable": {"cpu": "64", "memory": "512Gi", **({"nvidia.com/gpu": str(gpus)} if gpus else {})},
            "conditions": [{"type": "Ready", "status": ready, "reason": "KubeletReady" if ready == "True" else
                            "NodeStatusUnknown", "lastTransitionTime": time(35)}],
        },
    }  # fmt: skip


def a_jobset(**changes: Any) -> Object:
    labels = {"argosy.dev/run": RUN, "argosy.dev/gang": GANG, "argosy.dev/generation": "1"}
    return merged(
        {"kind": "JobSet", "metadata": meta(GANG, labels=labels), "spec": {"suspend": False},
         "status": {"conditions": [{"type": "Ready", "status": "False"}]}}, changes,
    )  # fmt: skip


def a_job(**changes: Any) -> Object:
    labels = {"argosy.dev/run": RUN, "argosy.dev/gang": GANG, "argosy.dev/generation": "1"}
    return merged(
        {"kind": "Job", "metadata": meta(f"{GANG}-n-0", labels=labels,
                                         ownerReferences=[{"kind": "JobSet", "name": GANG, "uid": f"uid-{GANG}"}]),
         "spec": {"parallelism": 2, "completions": 2, "suspend": False}, "status": {"active": 2}}, changes,
    )  # fmt: skip


def queued(*conditions: Object, queue: str = "gold", **changes: Any) -> Object:
    """Kueue's Workload of the gang."""
    owner = {"kind": "JobSet", "name": GANG, "uid": f"uid-{GANG}"}
    return merged(
        {"metadata": meta(f"jobset-{GANG}", ownerReferences=[owner]), "spec": {"queueName": queue, "active": True},
         "status": {"conditions": [{"lastTransitionTime": time(14), **item} for item in conditions]}}, changes,
    )  # fmt: skip


def not_reserved(reason: str, message: str) -> Object:
    return {"type": "QuotaReserved", "status": "False", "reason": reason, "message": message}


def evidence(*pods: Object, seconds: float = 60, view: Any = None, **objects: Any) -> Observed:
    """What was observed `seconds` after the run's start; by default its launch stage runs, and no gang has spoken."""
    values: dict[str, Any] = {
        "run": RUN, "namespace": NAMESPACE, "taken_at": at(seconds), "view": view or launching(), "pods": pods,
        "nodes": None,
    }  # fmt: skip
    values["view"] = values["view"].model_copy(update={"target": "kubernetes"})
    return Observed(**{**values, **objects})


def launching(**documents: Any) -> Any:
    engine = an_engine(a_node("shard-plan"), a_node("launch", "Running"), a_node("verify", "Pending"))
    return a_view(engine=engine, **documents)


def starting(num_joined: int, generation: int = 1) -> Any:
    """The gang has an agent 0 that waits for others."""
    gang = a_gang(
        RunState.STARTING, generation=generation, num_joined=num_joined, attempts=(), last_step=None, steps=(),
        created_at=at(20), updated_at=at(115),
    )  # fmt: skip
    return launching(gangs=(gang,), launch=a_launch(RunState.STARTING, backend="jobset"))
