"""What a run looks like now: the fold of its events. Shown by `status`, read back by the engine when it resumes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

from infra.local.events import (
    AttemptEnded,
    AttemptLost,
    AttemptStarted,
    DeadlinePassed,
    EngineLeft,
    EngineStarted,
    Event,
    MainEnded,
    NodeCreated,
    NodeEnded,
    NodeNoted,
    NodeReset,
    Phase,
    RunEnded,
    StopAsked,
)
from infra.local.names import attempt_folder

LOST = "engine lost"


@dataclass(frozen=True)
class AttemptState:
    """One try of a node's container. Times as `utc_text` writes them."""

    attempt: int
    phase: Phase
    message: str
    exit_code: int | None
    started_at: str
    finished_at: str | None
    pid: int
    """Of the supervisor, whose only child is the container's process."""
    process_started: int | None
    last_words: str
    outputs: Mapping[str, str]
    is_lost: bool
    """The engine died meanwhile; does not count against the retry limit."""
    log_path: str
    """Its stdout and stderr, relative to the run's folder."""


@dataclass(frozen=True)
class NodeState:
    """A task, an item of a sequence (`shard-task(0:0)`), the sequence as a whole, or `onExit[0].finish`."""

    name: str
    task: str
    template: str
    kind: str
    """Pod, Retry, TaskGroup or Skipped, as Argo names node types."""
    phase: Phase
    message: str
    """Why it is in that phase: for a failed node the message of its last attempt."""
    note: str
    """What Argo says on the Retry node: `No more retries left`, `retryStrategy.expression evaluated to false`."""
    started_at: str
    finished_at: str | None
    attempts: tuple[AttemptState, ...]
    items: tuple[str, ...]
    budget_from: int
    """Index of the first attempt that counts against the retry limit; moved by `resume`."""
    is_created: bool
    """False after a reset, until the walk comes to it again."""

    @property
    def is_fulfilled(self) -> bool:
        return self.is_created and self.phase not in ("Pending", "Running")

    @property
    def is_completed(self) -> bool:
        """Ran to an end, as opposed to skipped or omitted."""
        return self.is_created and self.phase in ("Succeeded", "Failed", "Error")

    @property
    def last(self) -> AttemptState | None:
        return self.attempts[-1] if self.attempts else None

    @property
    def charged(self) -> int:
        """Attempts that count against the retry limit."""
        return sum(not attempt.is_lost for attempt in self.attempts[self.budget_from :])

    @property
    def exit_code(self) -> int | None:
        return self.last.exit_code if self.last else None

    @property
    def outputs(self) -> Mapping[str, str]:
        return self.last.outputs if self.last else {}

    @property
    def log_path(self) -> str | None:
        """The last attempt's output, relative to the run's folder."""
        return self.last.log_path if self.last else None


@dataclass(frozen=True)
class LocalRunState:
    """A run on this machine. `phase` is Pending until an engine takes it, then Argo's Workflow phases."""

    phase: Phase = "Pending"
    message: str = ""
    started_at: str | None = None
    clock_started_at: str | None = None
    """What the workflow's deadline counts from; `resume` starts it again."""
    finished_at: str | None = None
    exit_code: int | None = None
    """The engine's exit code once the run ended."""
    stopped_by: str | None = None
    stop_is_forced: bool = False
    deadline_passed: bool = False
    main_phase: Phase | None = None
    """Outcome of the entry DAG; what `{{workflow.status}}` says to the exit handler."""
    main_message: str = ""
    nodes: Mapping[str, NodeState] = field(default_factory=dict)
    """By display name, in the order they were created."""
    engine: EngineStarted | None = None
    """The engine that took the run last; `RunDir.engine_alive()` says whether it still runs."""

    @property
    def is_final(self) -> bool:
        return self.finished_at is not None


class Fold:
    """The state after each event."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self._run = LocalRunState()
        self._nodes: dict[str, NodeState] = {}
        for event in events:
            self.apply(event)

    @property
    def nodes(self) -> Mapping[str, NodeState]:
        return self._nodes

    @property
    def run(self) -> LocalRunState:
        """The run without its nodes; cheap."""
        return self._run

    def state(self) -> LocalRunState:
        return replace(self._run, nodes=dict(self._nodes))

    def apply(self, event: Event) -> None:
        if isinstance(event, (EngineStarted, StopAsked, DeadlinePassed, MainEnded, RunEnded, EngineLeft)):
            self._run = _run_after(self._run, event)
        elif isinstance(event, NodeCreated):
            self._nodes[event.node] = _created(event, self._nodes.get(event.node))
        else:
            node = self._nodes.get(event.node)
            if node is not None:
                self._nodes[event.node] = _node_after(node, event)


def _run_after(
    run: LocalRunState, event: EngineStarted | StopAsked | DeadlinePassed | MainEnded | RunEnded | EngineLeft
) -> LocalRunState:
    match event:
        case EngineStarted():
            if run.started_at is not None and not event.resumed:
                return replace(run, engine=event, message="")
            return LocalRunState(
                phase="Running", started_at=run.started_at or event.at, clock_started_at=event.at, engine=event
            )
        case StopAsked():
            return replace(run, stopped_by=event.by, stop_is_forced=event.force)
        case DeadlinePassed():
            return replace(run, deadline_passed=True)
        case MainEnded():
            return replace(run, main_phase=event.phase, main_message=event.message)
        case RunEnded():
            return replace(
                run, phase=event.phase, message=event.message, exit_code=event.exit_code, finished_at=event.at
            )
        case EngineLeft():
            return replace(run, message=event.message)
        case _:
            assert_never(event)


def _created(event: NodeCreated, earlier: NodeState | None) -> NodeState:
    return NodeState(
        name=event.node,
        task=event.task,
        template=event.template,
        kind=event.kind,
        phase=event.phase,
        message=event.message,
        note="",
        started_at=event.at,
        finished_at=None if event.phase in ("Pending", "Running") else event.at,
        attempts=earlier.attempts if earlier else (),
        items=event.items,
        budget_from=len(earlier.attempts) if earlier else 0,
        is_created=True,
    )


def _node_after(
    node: NodeState, event: NodeReset | AttemptStarted | AttemptEnded | AttemptLost | NodeNoted | NodeEnded
) -> NodeState:
    match event:
        case NodeReset():
            return replace(node, phase="Pending", message="", note="", finished_at=None, is_created=False)
        case AttemptStarted():
            started = AttemptState(
                attempt=event.attempt, phase="Running", message="", exit_code=None, started_at=event.at,
                finished_at=None, pid=event.pid, process_started=event.process_started, last_words="", outputs={},
                is_lost=False, log_path=f"{attempt_folder(event.node, event.attempt)}/output.log",
            )  # fmt: skip
            return replace(node, phase="Running", message="", attempts=(*node.attempts, started))
        case AttemptEnded():
            ended = _with_attempt(
                node, event.attempt, phase=event.phase, exit_code=event.exit_code, message=event.message,
                last_words=event.last_words, outputs=event.outputs, finished_at=event.at,
            )  # fmt: skip
            return replace(ended, message=event.message)
        case AttemptLost():
            lost = _with_attempt(
                node, event.attempt, phase="Error", message=event.message, finished_at=event.at, is_lost=True
            )
            return replace(lost, phase="Pending", message=event.message)
        case NodeNoted():
            return replace(node, note=event.message)
        case NodeEnded():
            last = node.last.message if node.last and node.last.phase == event.phase else ""
            return replace(
                node, phase=event.phase, message=last or event.message, note=event.message, finished_at=event.at
            )
        case _:
            assert_never(event)


def _with_attempt(node: NodeState, attempt: int, **changes: object) -> NodeState:
    changed = tuple(
        replace(item, **changes) if item.attempt == attempt else item  # type: ignore[arg-type]
        for item in node.attempts
    )
    return replace(node, attempts=changed)
