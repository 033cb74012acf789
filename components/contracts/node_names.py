"""How Argo calls the nodes of a Workflow, below the Workflow's own name, and which stage stands behind each.

launch             a task                              launch(0)              its first attempt
shard-task(1:1)    an item of a sequence               shard-task(1:1)(0)     its first attempt
onExit[0].finish   the one step of the exit handler    onExit[0].finish(0)    its first attempt
"""

import re
from dataclasses import dataclass

from components.contracts.cluster_names import FINISH

EXIT_NODE = "onExit"
"""The exit handler's node. No task may have that name."""

# Names of tasks and steps hold no parenthesis; what an item is may hold anything.
_ITEM = re.compile(r"(?P<task>[^(]+)\((?P<index>\d+):(?P<item>.*)\)", re.DOTALL)
_ATTEMPT = re.compile(r"(?P<node>.+)\((?P<attempt>\d+)\)", re.DOTALL)


@dataclass(frozen=True)
class NodeName:
    """A node's name, taken apart."""

    node: str
    """Without the attempt: `shard-task(1:1)`."""
    task: str
    """Without the item as well: `shard-task`."""
    index: int | None = None
    """Place of an item in its sequence, from 0; None when the node is no item."""
    item: str = ""
    attempt: int | None = None
    """From 0; None when the node is no attempt."""

    @property
    def stage(self) -> str:
        """What the stage calls itself: `launch`, `shard-task-1`, `finish`."""
        if is_exit_node(self.node):
            return FINISH
        return self.task if self.index is None else f"{self.task}-{self.item}"


def parse_node_name(name: str) -> NodeName:
    """A name of no known form is a task's."""
    attempt = _ATTEMPT.fullmatch(name)
    node = attempt["node"] if attempt else name
    number = int(attempt["attempt"]) if attempt else None
    item = _ITEM.fullmatch(node)
    if item is None:
        return NodeName(node, node, attempt=number)
    return NodeName(node, item["task"], int(item["index"]), item["item"], number)


def item_node(task: str, index: int, item: str) -> str:
    """One item of a sequence: `shard-task(0:0)`."""
    return f"{task}({index}:{item})"


def attempt_node(node: str, attempt: int) -> str:
    """One attempt of a node: `launch(0)`."""
    return f"{node}({attempt})"


def step_node(step: str) -> str:
    """An exit handler's step: `onExit[0].finish`."""
    return f"{EXIT_NODE}[0].{step}"


def is_exit_node(node: str) -> bool:
    """Whether a node is the exit handler or part of it. Runs of earlier versions have it as one node, `onExit`."""
    return node == EXIT_NODE or node.startswith(f"{EXIT_NODE}[")
