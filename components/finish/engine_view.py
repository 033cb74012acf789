"""The engine's account of the run as far as an exit handler is told: `workflow.status`, `workflow.failures`, a stop."""

import json
from collections.abc import Sequence
from typing import Any, Literal

from components.contracts.clock import is_utc
from components.contracts.node_names import parse_node_name
from components.contracts.run_view import EngineNode, EngineView
from components.contracts.stop import StopRequest


def engine_view(status: str, failures: str, *, workflow: str, stop: StopRequest | None, ended_at: str) -> EngineView:
    """`status` as Argo gives it; anything else counts as Error. `failures` is the JSON text of `workflow.failures`."""
    phases: dict[str, Literal["Succeeded", "Failed", "Error"]] = {"Succeeded": "Succeeded", "Failed": "Failed"}
    phase = phases.get(status, "Error")
    return EngineView(phase=phase, nodes=failed_nodes(failures, workflow=workflow), stop=stop, ended_at=ended_at)


def failed_nodes(failures: str, *, workflow: str) -> tuple[EngineNode, ...]:
    """The tasks that failed, one entry each, the newest attempt's message. Unreadable text counts as none.

    Argo lists every node: the DAG as a whole, which is called like the Workflow; the task, which says only that no
    retry is left; its attempts, also those after which another one succeeded.
    """
    nodes: dict[str, tuple[tuple[bool, str], EngineNode]] = {}
    items = [item for item in _items(failures) if item.get("displayName") != workflow]
    failed = {item.get("displayName") for item in items}
    for item in items:
        shown, phase = item.get("displayName"), item.get("phase")
        if not isinstance(shown, str) or (phase != "Failed" and phase != "Error"):
            continue
        name = parse_node_name(shown)
        is_attempt = name.attempt is not None
        if is_attempt and name.node not in failed:
            continue
        ended_at = item.get("finishedAt") if is_utc(item.get("finishedAt")) else None
        rank = (is_attempt, ended_at or "")
        if name.task not in nodes or rank >= nodes[name.task][0]:
            message = str(item.get("message") or "")
            nodes[name.task] = rank, EngineNode(task=name.task, phase=phase, message=message, ended_at=ended_at)
    return tuple(node for _, node in nodes.values())


def _items(failures: str) -> Sequence[dict[str, Any]]:
    value: Any = failures
    for _ in range(2):  # Argo hands over a JSON list as a JSON string
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except ValueError:
                return []
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
