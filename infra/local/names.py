"""How nodes are called and which folder each of their attempts has."""

import re

from infra.exit_handler import is_exit_node


def item_name(task: str, index: int, item: str) -> str:
    """Argo's name of one item of a sequence: `shard-task(0:0)`."""
    return f"{task}({index}:{item})"


def node_folder(node: str) -> str:
    """`nodes/shard-task.0` for `shard-task(0:0)`: no character a shell or a path list would trip over.

    Task names hold no dot, and none is `onExit`, so two nodes never share a folder.
    """
    if is_exit_node(node):
        return "nodes/" + node.replace("[0]", "")
    return "nodes/" + re.sub(r"\((\d+):.*\)$", r".\1", node, flags=re.DOTALL)


def attempt_folder(node: str, attempt: int) -> str:
    """Relative to the run's folder: `nodes/<node>/<attempt>`."""
    return f"{node_folder(node)}/{attempt}"
