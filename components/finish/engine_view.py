"""The engine's account of the run as far as an exit handler is told: `workflow.status`, `workflow.failures`, a stop."""

import json
import re
from collections.abc import Sequence
from typing import Any, Literal

from components.contracts.clock import is_utc
from components.contracts.run_view import EngineNode, EngineView
from components.contracts.stop import StopRequest

_ATTEMPT = re.compile(r"(.+)\(\d+\)")
"""Argo calls the attempts of task `launch` `launch(0)`, `launch(1)`."""
_ITEM = re.compile(r"\(\d+:[^)]*\)$")
"""It calls the items of a sequence `shard-task(2:2)`."""


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
        name, phase = item.get("displayName"), item.get("phase")
        if not isinstance(name, str) or (phase != "Failed" and phase != "Error"):
            continue
        attempt = _ATTEMPT.fullmatch(name)
        if attempt and attempt[1] not in failed:
            continue
        task = _ITEM.sub("", attempt[1] if attempt else name)
        ended_at = item.get("finishedAt") if is_utc(item.get("finishedAt")) else None
        rank = (attempt is not None, ended_at or "")
        if task not in nodes or rank >= nodes[task][0]:
            message = str(item.get("message") or "")
            nodes[task] = rank, EngineNode(task=task, phase=phase, message=message, ended_at=ended_at)
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
