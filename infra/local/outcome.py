"""What the whole run came to: its phase, the words for it, the engine's exit code."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from components.contracts.node_names import is_exit_node
from components.errors import ExitCode
from infra.local.events import Phase
from infra.local.program import ExitHandler
from infra.local.state import LocalRunState, NodeState

LEAF_DEADLINE = "Pod was active on the node longer than the specified deadline"
WORKFLOW_DEADLINE = "Step exceeded its deadline"


@dataclass(frozen=True)
class Outcome:
    """The end of a run."""

    phase: Phase
    message: str
    exit_code: int


def outcome(run: LocalRunState, nodes: Mapping[str, NodeState], handler: ExitHandler | None) -> Outcome:
    """The outcome of a run whose entry DAG and exit handler are over.

    A failing exit handler turns a success into its own failure; it changes nothing about a failure. Around a step an
    Error too is a failure.
    """
    phase: Phase = run.main_phase or "Error"
    exit_node = nodes.get(handler.node) if handler else None
    if phase in ("Succeeded", "Skipped", "Omitted"):
        if exit_node is None or exit_node.phase not in ("Failed", "Error"):
            return Outcome("Succeeded", "", int(ExitCode.OK))
        code = int(ExitCode.STOPPED) if run.stop_is_forced else _exit_code(exit_node)
        bad: Phase = "Failed" if handler and handler.is_step else exit_node.phase
        return Outcome(bad, f"{exit_node.template}: {exit_node.message}", code)
    if run.stopped_by is not None:
        return Outcome(phase, f"Stopped with strategy '{stop_strategy(run)}'", int(ExitCode.STOPPED))
    first = first_failed(node for node in nodes.values() if not is_exit_node(node.name))
    if first is None:
        return Outcome(phase, run.main_message, int(ExitCode.STOPPED if run.deadline_passed else ExitCode.BUG))
    code = int(ExitCode.STOPPED) if run.deadline_passed else _exit_code(first)
    return Outcome(phase, f"{first.name}: {first.message}", code)


def stop_strategy(run: LocalRunState) -> str:
    """Argo's name for how the run is being stopped."""
    return "Terminate" if run.stop_is_forced else "Stop"


def first_failed(nodes: Iterable[NodeState]) -> NodeState | None:
    """The leaf that failed first."""
    failed = [node for node in nodes if node.phase in ("Failed", "Error") and node.kind != "TaskGroup"]
    return min(failed, key=lambda node: node.finished_at or "", default=None)


def _exit_code(node: NodeState) -> int:
    if node.message in (LEAF_DEADLINE, WORKFLOW_DEADLINE):
        return int(ExitCode.STOPPED)
    return node.exit_code or int(ExitCode.BUG)
