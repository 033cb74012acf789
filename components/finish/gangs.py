"""Ends what is left of a run's gang in a cluster: the JobSets and Jobs of this Workflow, their Secrets and Services.

The launcher did this, unless it could not: it was killed for good, its node is lost, its grace was too short. What
cannot be ended here, pods of nodes that do not answer, is the janitor's.
"""

import threading
import time
from collections.abc import Sequence
from typing import Any

from components.cluster.base import Cluster, Object
from components.cluster.kinds import JOB_SETS, JOBS, PODS, SECRETS, SERVICES, WORKFLOWS
from components.cluster.live import LiveObjects
from components.contracts.clock import now_text
from components.contracts.cluster_names import GANG_LABEL, RUN_LABEL, STOP_ANNOTATION, WORKFLOW_ANNOTATION
from components.contracts.stop import StopRequest, read_stop
from components.runtime.log import Log

_FIRST_LOOK_SECONDS = 30.0
_SETTLE_SECONDS = 5.0
"""Added to a pod's grace period: what Kubernetes needs to see and say that it is gone."""


def end_gangs(cluster: Cluster, *, run: str, workflow: str, log: Log) -> Sequence[str]:
    """Delete what this Workflow's launch stage left of `run`, and wait for its pods: the names of the gangs.

    Raises what the API server says.
    """
    found = {}
    for kind in (JOB_SETS, JOBS) if cluster.serves(JOB_SETS) else (JOBS,):
        for item in cluster.list(kind, labels=f"{RUN_LABEL}={run}").items:
            if _is_ours(item, workflow):
                found[item["metadata"]["name"]] = kind, item["metadata"]["uid"]
    for name, (kind, uid) in sorted(found.items()):
        log.info(f"{name} is left: it is removed", kind=kind.kind)
        # Foreground: it stays until its pods are gone, so whoever looks sees that it is ending.
        cluster.delete(kind, name, propagation="Foreground", uid=uid)
        for part in (SECRETS, SERVICES):
            cluster.delete(part, name)
    if found:
        _wait_for_pods(cluster, run, sorted(found), log)
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


def _wait_for_pods(cluster: Cluster, run: str, gangs: Sequence[str], log: Log) -> None:
    changed = threading.Event()
    selector = f"{RUN_LABEL}={run},{GANG_LABEL} in ({','.join(gangs)})"
    pods = LiveObjects(cluster, PODS, on_change=changed.set, log=log, labels=selector)
    try:
        pods.wait_until_listed(_FIRST_LOOK_SECONDS)
        grace = max((float(item["spec"].get("terminationGracePeriodSeconds", 30)) for item in pods.living()), default=0)
        deadline = time.monotonic() + grace + _SETTLE_SECONDS
        while (left := pods.living()) and time.monotonic() < deadline:
            changed.wait(1.0)
            changed.clear()
        for item in left:
            log.warning(
                f"pod {item['metadata']['name']} is still there; its node or the janitor ends it",
                node=item["spec"].get("nodeName", ""),
            )  # fmt: skip
    finally:
        pods.close()
