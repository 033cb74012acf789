"""What the gangs of a run are in a cluster, whoever looks for them, and how long their pods are waited for."""

import time
from collections.abc import Callable, Collection

from components.cluster.base import Cluster, Object
from components.cluster.kinds import JOB_SETS, JOBS, PODS, Kind
from components.cluster.live import FIRST_LOOK_SECONDS, LiveObjects
from components.contracts.cluster_names import GANG_LABEL, RUN_LABEL
from components.runtime.log import Log

SETTLE_SECONDS = 5.0
"""Added to a pod's grace period: what Kubernetes needs to see and say that it is gone."""


def gang_kinds(cluster: Cluster) -> tuple[Kind, ...]:
    """What gangs can be there: a JobSet has Jobs of its own, which go with it."""
    return (JOB_SETS, JOBS) if cluster.serves(JOB_SETS) else (JOBS,)


def gangs_of(cluster: Cluster, run: str) -> list[str]:
    """Names of the run's gangs that are still there, whether or not they train."""
    found = [item for kind in gang_kinds(cluster) for item in cluster.list(kind, labels=f"{RUN_LABEL}={run}").items]
    return sorted({str(item["metadata"]["name"]) for item in found})


def pods_left(
    cluster: Cluster, run: str, gangs: Collection[str], *, log: Log, on_change: Callable[[], None],
    wait: Callable[[float], object],
) -> list[Object]:  # fmt: skip
    """Wait until no pod of these gangs is left, as long as their grace periods allow: those that are there still.

    `wait` returns after so many seconds, or earlier after `on_change` was called, from another thread.
    """
    if not gangs:
        return []
    selector = f"{RUN_LABEL}={run},{GANG_LABEL} in ({','.join(sorted(gangs))})"
    pods = LiveObjects(cluster, PODS, on_change=on_change, log=log, labels=selector, remembers=False)
    try:
        pods.wait_until_listed(FIRST_LOOK_SECONDS)
        graces = [float(pod["spec"].get("terminationGracePeriodSeconds", 30)) for pod in pods.living()]
        deadline = time.monotonic() + max(graces, default=0.0) + SETTLE_SECONDS
        while (left := pods.living()) and time.monotonic() < deadline:
            wait(1.0)
        return left
    finally:
        pods.close()
