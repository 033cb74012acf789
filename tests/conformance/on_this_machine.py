"""Runs a case on the local engine."""

from pathlib import Path

from components.errors import BadInput
from infra.local.client import request_stop
from infra.local.state import NodeState
from tests.conformance.case import REFUSED, Case, Ending, Node
from tests.infra.local.engine_process import EngineProcess


def run_here(case: Case, home: Path) -> Ending:
    """Run `case` to its end in a process of its own."""
    try:
        engine = EngineProcess(home, case.manifest("local"), run=case.name, **case.parameters).start()
    except BadInput:
        return Ending(REFUSED, None, {})
    try:
        if case.stop_when_running:
            engine.until_running(case.stop_when_running)
            request_stop(engine.run_dir, by="test")
        engine.wait()
    finally:
        engine.close()
    state = engine.state
    return Ending(state.phase, state.message, {name: _node(node) for name, node in state.nodes.items()})


def _node(node: NodeState) -> Node:
    attempts = tuple(attempt.exit_code for attempt in node.attempts)
    message = node.last.message if node.last else node.message
    return Node(node.phase, attempts, dict(node.outputs), message, node.note)
