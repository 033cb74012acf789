"""Which nodes do not answer. Where all are silent, or nobody could listen, nobody looked."""

from collections.abc import Iterable, Mapping
from typing import Any

from components.cluster.base import Object
from components.cluster.fields import condition, name_of

REPORTING_SECONDS = 60.0
"""So long kubelets have to report to an API server that is back; 45 s were seen on a busy host."""


def is_unready(node: Mapping[str, Any]) -> bool:
    """Whether its kubelet does not answer or says that it is not ready."""
    ready = condition(node, "Ready")
    return bool(ready) and ready.get("status") != "True"


def readiness(node: Object) -> Object:
    """All we need of an object of which large clusters have thousands, each changing every few minutes: `name` and
    `is_ready`. One that nobody has said anything about yet counts as ready.
    """
    return {"name": name_of(node), "is_ready": not is_unready(node)}


def silent_nodes(nodes: Iterable[Object], *, seconds_since_away: float) -> frozenset[str]:
    """Names of those that are not Ready, of nodes as `readiness` gives them; none while that is all of them, or when
    the API server itself did not answer a moment ago.

    While it is away no kubelet can report, so afterwards all nodes count as silent, until one after the other has
    reported again, and everything on them works. To take that away would end gangs that nothing is wrong with.
    """
    if seconds_since_away < REPORTING_SECONDS:
        return frozenset()
    is_ready = {node["name"]: node["is_ready"] for node in nodes}
    silent = frozenset(name for name, ready in is_ready.items() if not ready)
    return frozenset() if len(silent) == len(is_ready) else silent
