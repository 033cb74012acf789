"""Everything known about one run, as one value: folded by `components.report.run_view`, judged by `diagnosis`.

`EngineView`: made by the command line from the local engine, or by finish from `workflow.status`.
`RunView`: read by status, why, submit, runs and the report; `status -o json` prints it.
"""

from enum import StrEnum
from typing import Any, Literal

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveInt

from components.contracts.checks import CheckReport
from components.contracts.clock import UtcText
from components.contracts.document import Document
from components.contracts.gang import GangState, LaunchState
from components.contracts.lifecycle import RunState
from components.contracts.retention import RetentionPlan
from components.contracts.stop import StopRequest


class StageState(StrEnum):
    """Where one task of the workflow stands."""

    WAITING = "Waiting"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    STOPPED = "Stopped"
    """Ended because somebody asked the run to stop."""
    LOST = "Lost"
    """Was running when the engine that ran it disappeared; `resume` repeats it."""
    SKIPPED = "Skipped"
    """Never ran, because something before it did not succeed."""

    @property
    def ended_badly(self) -> bool:
        return self in (StageState.FAILED, StageState.STOPPED, StageState.LOST)


class EngineNode(Document):
    """One task as the engine sees it, whatever its stage wrote about itself."""

    task: str
    phase: Literal["Pending", "Running", "Succeeded", "Failed", "Error", "Skipped", "Omitted"]
    attempts: NonNegativeInt = 0
    exit_code: int | None = None
    message: str = ""
    """The engine's words."""
    last_words: str = ""
    """What the newest attempt left in its termination log."""
    last_lines: tuple[str, ...] = ()
    """The end of its output, when it failed without last words."""
    started_at: UtcText | None = None
    attempt_started_at: UtcText | None = None
    """Start of the newest attempt; tells whether a stage's own record speaks of it."""
    ended_at: UtcText | None = None
    outputs: dict[str, str] = {}


BEFORE_START = (RunState.SUBMITTED, RunState.QUEUED, RunState.STARTING)
"""States of a gang whose ranks have not begun."""

SUSPENDED = "WorkflowSuspended"
"""With this reason an engine's message begins while somebody holds the run back: no stage starts, and none ends."""

NOT_TAKEN_UP = "NotTakenUp"
"""And with this one while no engine has looked at the run: it neither starts nor stops."""


class EngineView(Document):
    """The engine's account of a run: Argo's phases, one entry a task, in the order of the workflow."""

    phase: Literal["Pending", "Running", "Succeeded", "Failed", "Error"]
    message: str = ""
    alive: bool | None = None
    """Whether the engine's process runs; None when nobody can tell, for example from inside a stage."""
    pid: int | None = None
    started_at: UtcText | None = None
    ended_at: UtcText | None = None
    exit_code: int | None = None
    """The engine's verdict on the run, once it ended."""
    nodes: tuple[EngineNode, ...] = ()
    stop: StopRequest | None = None

    @property
    def is_over(self) -> bool:
        return self.phase not in ("Pending", "Running")

    @property
    def was_lost(self) -> bool:
        """It is gone and had not come to an end: nobody goes on with the run."""
        return self.alive is False and not self.is_over


class StageView(Document):
    """One task of the workflow: the engine's account and the stage's own, together."""

    task: str
    state: StageState
    attempts: NonNegativeInt = 0
    node: str = ""
    started_at: str | None = None
    ended_at: str | None = None
    exit_code: int | None = None
    reason: str = ""
    """The stage's own, as are `message` and `fix`; the engine's words when it left none."""
    message: str = ""
    fix: str = ""
    engine_message: str = ""
    """The engine's words: a deadline, a stop, a command that could not be started."""
    last_lines: tuple[str, ...] = ()
    """The end of its output, when it failed without words of its own."""
    outputs: dict[str, str] = {}


class CheckpointRow(Document):
    """One checkpoint of the run's experiment and model version, as the ledger knows it."""

    checkpoint: str
    step: NonNegativeInt
    term: NonNegativeInt
    run: str
    data_version: str
    status: Literal["committed", "verified", "quarantined", "retired"]
    level: str | None = None
    """How deeply it was verified."""
    reason: str = ""
    """Why it was quarantined or retired."""
    retired_by: str = ""
    """The run whose retain stage decided it."""
    metrics: dict[str, float] = {}
    pinned: bool = False
    size_bytes: NonNegativeInt
    committed_at: str
    uri: str
    """Its folder; the objects of a retired one are gone or will be."""


class ClaimView(Document):
    """Which run may train this experiment and model version now."""

    run: str
    owner: str
    since: str


class Pace(Document):
    """How fast the newest steps went; None when there are too few to tell."""

    step_seconds: NonNegativeFloat | None = None
    tokens_per_second: NonNegativeFloat | None = None
    seconds_left: NonNegativeFloat | None = None


class RunView(Document):
    """One run, frozen at the moment it was read."""

    kind: Literal["run-view"] = "run-view"
    version: Literal[1] = 1
    run: str
    experiment: str = ""
    model_version: str = ""
    target: str = ""
    storage: str = ""
    state: RunState
    exit_code: int | None = None
    """The run's, once it is final: 0, 83 when stopped, otherwise the failing stage's."""
    failed_task: str | None = None
    """The task whose failure ended the run."""
    created_at: str | None = None
    started_at: str | None = None
    ended_at: str | None = None
    updated_at: str | None = None
    """The newest moment any of the documents speaks of."""
    engine: EngineView | None = None
    stop: StopRequest | None = None
    stages: tuple[StageView, ...] = ()
    checks: tuple[CheckReport, ...] = ()
    """Preflight's, then the nodes' of the newest generation."""
    launch: LaunchState | None = None
    gangs: tuple[GangState, ...] = ()
    """One a generation, oldest first."""
    step: NonNegativeInt | None = None
    total_steps: PositiveInt | None = None
    loss: float | None = None
    pace: Pace = Pace()
    data_version: str | None = None
    checkpoint: str | None = None
    """The newest checkpoint of this run that is verified, else committed."""
    checkpoints: tuple[CheckpointRow, ...] = ()
    """Newest first; also those of earlier runs of this experiment and model version."""
    retention: RetentionPlan | None = None
    claim: ClaimView | None = None
    report: str | None = None
    """Uri of report.html, once it exists."""
    description: dict[str, Any] = {}
    """The run description as compiled."""
    unreadable: tuple[str, ...] = ()
    """Documents that exist but could not be read, each with the reason."""

    @property
    def gang(self) -> GangState | None:
        """The newest generation's state."""
        return self.gangs[-1] if self.gangs else None

    @property
    def held_up(self) -> str:
        """What keeps a gang from starting, in the launcher's words; empty where agent 0 knows better."""
        launch, gang = self.launch, self.gang
        is_starting = gang is None or gang.state.is_final or gang.state in BEFORE_START
        return launch.message if launch is not None and launch.state is RunState.STARTING and is_starting else ""

    def stage(self, task: str) -> StageView | None:
        """The stage of that task, or None when it was never heard of."""
        return next((stage for stage in self.stages if stage.task == task), None)
