"""What a resumed run does again: every node that did not succeed, and whatever came after one that failed."""

from collections.abc import Mapping

from components.contracts.node_names import is_exit_node
from infra.local.program import Program
from infra.local.state import LocalRunState, NodeState


def nodes_to_repeat(program: Program, run: LocalRunState, nodes: Mapping[str, NodeState]) -> tuple[str, ...]:
    """Nodes that start over with a new retry budget when `run` is resumed.

    After a mere loss of the engine none: the run goes on where it was, with the retries it had left. After a failure,
    a stop or a deadline, what succeeded is kept unless it came after something that is repeated.
    """
    ended_badly = run.main_phase in ("Failed", "Error") or run.phase in ("Failed", "Error")
    if not (ended_badly or run.stopped_by or run.deadline_passed):
        return ()
    again: set[str] = set()
    for task in program.tasks:
        own = {node.task for node in nodes.values() if node.phase not in ("Succeeded", "Omitted", "Skipped")}
        if task.name in own or not again.isdisjoint(task.waits_for):
            again.add(task.name)
    after = {task.name for task in program.tasks if not again.isdisjoint(task.waits_for)}
    return tuple(
        node.name
        for node in nodes.values()
        if node.is_created
        and (
            is_exit_node(node.name)
            or node.task in after
            or (node.task in again and (node.phase != "Succeeded" or node.kind == "TaskGroup"))
        )
    )
