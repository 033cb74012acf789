"""Which nodes do not answer, judged as the node controller judges zones: where all are silent, nobody looked."""

from collections.abc import Iterable

from components.cluster.base import Object


def readiness(node: Object) -> Object:
    """All we need of an object of which large clusters have thousands, each changing every few minutes: `name` and
    `is_ready`. One that nobody has said anything about yet counts as ready.
    """
    conditions = (node.get("status") or {}).get("conditions") or ()
    told = [item.get("status") for item in conditions if item.get("type") == "Ready"]
    return {"name": node["metadata"]["name"], "is_ready": not told or told[0] == "True"}


def silent_nodes(nodes: Iterable[Object]) -> frozenset[str]:
    """Names of those that are not Ready, of nodes as `readiness` gives them; none while that is all of them.

    After an API server was away for some time all nodes count as silent until their kubelets have reported again, while
    everything on them works. To take it away would end every gang at once, and there would be no node left to go to.
    """
    is_ready = {node["name"]: node["is_ready"] for node in nodes}
    silent = frozenset(name for name, ready in is_ready.items() if not ready)
    return frozenset() if len(silent) == len(is_ready) else silent
