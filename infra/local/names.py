"""Which folder each attempt of a node has."""

from components.contracts.node_names import is_exit_node, parse_node_name


def node_folder(node: str) -> str:
    """`nodes/shard-task.0` for `shard-task(0:0)`: no character a shell or a path list would trip over.

    Task names hold no dot, and none is `onExit`, so two nodes never share a folder.
    """
    if is_exit_node(node):
        return "nodes/" + node.replace("[0]", "")
    name = parse_node_name(node)
    return f"nodes/{name.task}" if name.index is None else f"nodes/{name.task}.{name.index}"


def attempt_folder(node: str, attempt: int) -> str:
    """Relative to the run's folder: `nodes/<node>/<attempt>`."""
    return f"{node_folder(node)}/{attempt}"
