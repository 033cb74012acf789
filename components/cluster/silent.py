"""Which nodes do not answer, judged as the node controller judges zones: where all are silent, nobody looked."""

from collections.abc import Mapping


def silent_nodes(is_ready: Mapping[str, bool]) -> frozenset[str]:
    """Names of the nodes that are not Ready; none while that is all of them.

    After an API server was away for some time all nodes count as silent until their kubelets have reported again, while
    everything on them works. To take it away would end every gang at once, and there would be no node left to go to.
    """
    silent = frozenset(name for name, ready in is_ready.items() if not ready)
    return frozenset() if len(silent) == len(is_ready) else silent
