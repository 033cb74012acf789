"""Ends what is left of a run's gang in a cluster: the JobSets and Jobs of this Workflow, their Secrets and Services.

The launcher did this, unless it could not: it was killed for good, its node is lost, its grace was too short. What
cannot be ended here, pods of nodes that do not answer, is the janitor's.
"""

import threading
from collections.abc import Sequence
from typing import Any

from components.cluster.base import Cluster, Object
from components.cluster.gangs import gang_kinds, pods_left
from components.cluster.kinds import SECRETS, SERVICES, WORKFLOWS
from components.contracts.clock import now_text
from components.contracts.cluster_names import RUN_LABEL, STOP_ANNOTATION, WORKFLOW_ANNOTATION
from components.contracts.stop import StopRequest, read_stop
from components.runtime.log import Log


def end_gangs(cluster: Cluster, *, run: str, workflow: str, log: Log) -> Sequence[str]:
    """Delete what this Workflow's launch stage left of `run`, and wait for its pods: the names of the gangs.

    Raises what the API server says.
    """
    found = {}
    for kind in gang_kinds(cluster):
        for item in cluster.list(kind, labels=f"{RUN_LABEL}={run}").items:
            if _is_ours(item, workflow):
                found[item["metadata"]["name"]] = kind, item["metadata"]["uid"]
    for name, (kind, uid) in sorted(found.items()):
        log.info(f"{name} is left: it is removed", kind=kind.kind)
        # Foreground: it stays until its pods are gone, so whoever looks sees that it is ending.
        cluster.delete(kind, name, propagation="Foreground", uid=uid)
        for part in (SECRETS, SERVICES):
            cluster.delete(part, name)
    changed = threading.Event()

    def wait(seconds: float) -> None:
        changed.wait(seconds)
        changed.clear()

    for pod in pods_left(cluster, run, found, log=log, on_change=changed.set, wait=wait):
        log.warning(
            f"pod {pod['metadata']['name']} is still there; its node or the janitor ends it",
            node=pod["spec"].get("nodeName", ""),
        )
    return sorted(found)


def stop_of(cluster: Cluster, workflow: str) -> StopRequest | None:
    """Who asked for the Workflow's end, if anybody did."""
    found = cluster.read(WORKFLOWS, workflow)
    if found is None:
        return None
    if told := (found["metadata"].get("annotations") or {}).get(STOP_ANNOTATION):
        return read_stop(str(told).encode())
    is_shut_down = bool((found.get("spec") or {}).get("shutdown"))
    return StopRequest(by="somebody, through Argo", at=now_text()) if is_shut_down else None


def _is_ours(item: Object, workflow: str) -> bool:
    metadata: dict[str, Any] = item["metadata"]
    if any(owner.get("controller") for owner in metadata.get("ownerReferences") or ()):
        return False  # a JobSet's Job goes with it
    return bool((metadata.get("annotations") or {}).get(WORKFLOW_ANNOTATION, workflow) == workflow)
