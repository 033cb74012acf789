"""The engine's account of the run as far as an exit handler is told: `workflow.status`, `workflow.failures`, a stop."""

import json
import re
from collections.abc import Sequence
from typing import Any, Literal

from components.contracts.clock import is_utc
from components.contracts.run_view import EngineNode, EngineView
from components.contracts.stop import StopRequest

_RETRY_NODE = re.compile(r"\(\d+(:[^)]*)?\)$")
"""Argo calls the attempts of task `launch` `launch(0)`, `launch(1)`; items of a sequence `shard-task(2:2)`."""


def engine_view(status: str, failures: str, *, stop: StopRequest | None, ended_at: str) -> EngineView:
    """`status` as Argo gives it; anything else counts as Error. `failures` is the JSON text of `workflow.failures`."""
    phases: dict[str, Literal["Succeeded", "Failed", "Error"]] = {"Succeeded": "Succeeded", "Failed": "Failed"}
    phase = phases.get(status, "Error")
    return EngineView(phase=phase, nodes=failed_nodes(failures), stop=stop, ended_at=ended_at)


def failed_nodes(failures: str) -> tuple[EngineNode, ...]:
    """The tasks that failed, one entry each, the newest attempt's message. Unreadable text counts as none."""
    nodes: dict[str, EngineNode] = {}
    for item in _items(failures):
        name, phase = item.get("displayName"), item.get("phase")
        if not isinstance(name, str) or (phase != "Failed" and phase != "Error"):
            continue
        task = _RETRY_NODE.sub("", name)
        ended_at = item.get("finishedAt") if is_utc(item.get("finishedAt")) else None
        known = nodes.get(task)
        if known is None or (ended_at or "") >= (known.ended_at or ""):
            nodes[task] = EngineNode(task=task, phase=phase, message=str(item.get("message") or ""), ended_at=ended_at)
    return tuple(nodes.values())


def _items(failures: str) -> Sequence[dict[str, Any]]:
    value: Any = failures
    for _ in range(2):  # Argo hands over a JSON list as a JSON string
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except ValueError:
                return []
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
