"""The local engine's fold in the words of the run view (pure)."""

from components.contracts.exit_message import parse_exit_message
from components.contracts.node_names import parse_node_name
from components.contracts.run_view import EngineNode, EngineView
from components.contracts.stop import StopRequest
from infra.local.state import LocalRunState, NodeState


def engine_view(
    state: LocalRunState, *, is_alive: bool, tasks: tuple[str, ...], asked: StopRequest | None
) -> EngineView:
    """`tasks` are the manifest's, in order; `asked` is the stop request that lies in the run's folder."""
    # A request that came after the end stopped nothing.
    acted = asked is not None and (not state.is_final or state.stopped_by is not None)
    nodes = [node for node in state.nodes.values() if node.kind != "TaskGroup" or not node.items]
    order = {task: index for index, task in enumerate(tasks)}
    begun = {node.task for node in nodes}
    views = [(order.get(node.task, len(order)), _node_view(node)) for node in nodes]
    views += [(order[task], EngineNode(task=task, phase="Pending")) for task in tasks if task not in begun]
    views.sort(key=lambda item: item[0])
    return EngineView(
        phase="Error" if state.phase == "Skipped" or state.phase == "Omitted" else state.phase,
        message=state.message, alive=is_alive, pid=state.engine.pid if state.engine else None,
        started_at=state.started_at, ended_at=state.finished_at, exit_code=state.exit_code,
        nodes=tuple(view for _, view in views),
        stop=asked if acted else None,
    )  # fmt: skip


def _node_view(node: NodeState) -> EngineNode:
    last = node.last
    return EngineNode(
        task=parse_node_name(node.name).stage, phase=node.phase, attempts=len(node.attempts), exit_code=node.exit_code,
        message="" if parse_exit_message(node.message) else node.message,
        last_words=last.last_words if last else "", started_at=node.started_at,
        attempt_started_at=last.started_at if last else None, ended_at=node.finished_at, outputs=dict(node.outputs),
    )  # fmt: skip
