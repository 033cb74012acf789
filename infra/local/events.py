"""What happened in a run, one JSON line each: appended to `events.jsonl`, never changed. `state.py` folds them."""

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError

from components.contracts.clock import UtcText
from components.contracts.document import Document

Phase = Literal["Pending", "Running", "Succeeded", "Failed", "Error", "Skipped", "Omitted"]
"""A node's phase, in Argo's words."""


class EngineStarted(Document):
    """An engine took the run over. `incarnation` counts them from 1."""

    type: Literal["engine-started"] = "engine-started"
    at: UtcText
    incarnation: int
    pid: int
    process_started: int | None = None
    boot_id: str
    host: str
    resumed: bool
    """By `resume`: the workflow's clock starts again and a stop asked for earlier is forgotten."""


class NodeReset(Document):
    """A node is to run again with a new retry budget; its attempts stay in the record."""

    type: Literal["node-reset"] = "node-reset"
    at: UtcText
    node: str


class NodeCreated(Document):
    """A task, an item of a sequence or the exit handler became ready, or was found not to run at all."""

    type: Literal["node-created"] = "node-created"
    at: UtcText
    node: str
    """Argo's name below the Workflow's: `shard-plan`, `shard-task(0:0)`, `onExit[0].finish`."""
    task: str
    template: str
    kind: Literal["Pod", "Retry", "TaskGroup", "Skipped"]
    phase: Phase
    message: str = ""
    items: tuple[str, ...] = ()
    """The values of a TaskGroup's sequence."""


class AttemptStarted(Document):
    """A container's process runs. `pid` is its supervisor's."""

    type: Literal["attempt-started"] = "attempt-started"
    at: UtcText
    node: str
    attempt: int
    pid: int
    process_started: int | None = None


class AttemptEnded(Document):
    """A container ended and everything it left running is gone."""

    type: Literal["attempt-ended"] = "attempt-ended"
    at: UtcText
    node: str
    attempt: int
    phase: Phase
    exit_code: int | None = None
    message: str
    last_words: str = ""
    """What it wrote to its termination log."""
    outputs: dict[str, str] = {}


class AttemptLost(Document):
    """The engine died while the container ran: repeated, and not counted against the retry limit."""

    type: Literal["attempt-lost"] = "attempt-lost"
    at: UtcText
    node: str
    attempt: int
    message: str


class NodeNoted(Document):
    """A word about a node that goes on: what it waits for."""

    type: Literal["node-noted"] = "node-noted"
    at: UtcText
    node: str
    message: str


class NodeEnded(Document):
    """A node has its final phase."""

    type: Literal["node-ended"] = "node-ended"
    at: UtcText
    node: str
    phase: Phase
    message: str


class StopAsked(Document):
    """The engine saw `stop.json`. `force` kills at once and lets no exit handler run."""

    type: Literal["stop-asked"] = "stop-asked"
    at: UtcText
    by: str
    asked_at: UtcText | None = None
    force: bool


class DeadlinePassed(Document):
    """The workflow's own deadline passed."""

    type: Literal["deadline-passed"] = "deadline-passed"
    at: UtcText


class MainEnded(Document):
    """The entry DAG has its final phase; the exit handler is next."""

    type: Literal["main-ended"] = "main-ended"
    at: UtcText
    phase: Phase
    message: str


class RunEnded(Document):
    """The run has its final phase."""

    type: Literal["run-ended"] = "run-ended"
    at: UtcText
    phase: Phase
    message: str
    exit_code: int


class EngineLeft(Document):
    """The engine was told to go before the run ended. `resume` continues."""

    type: Literal["engine-left"] = "engine-left"
    at: UtcText
    message: str


Event = (
    EngineStarted | NodeReset | NodeCreated | AttemptStarted | AttemptEnded | AttemptLost | NodeNoted | NodeEnded
    | StopAsked | DeadlinePassed | MainEnded | RunEnded | EngineLeft
)  # fmt: skip

_EVENT: TypeAdapter[Event] = TypeAdapter(Annotated[Event, Field(discriminator="type")])


def read_events(data: bytes) -> tuple[list[Event], int]:
    """The events in `data`, and how many bytes of it they take.

    A line without its newline is an append that a crash cut short: it never happened. A complete line that cannot be
    read ends the history too, for what follows it may rest on it.
    """
    events: list[Event] = []
    used = 0
    while (end := data.find(b"\n", used)) >= 0:
        try:
            events.append(_EVENT.validate_json(data[used:end]))
        except ValidationError:
            break
        used = end + 1
    return events, used


def event_line(event: Event) -> bytes:
    """`event` as it stands in the file."""
    return event.to_bytes() + b"\n"
