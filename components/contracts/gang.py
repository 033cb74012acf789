"""Documents of a gang: the spec the launcher hands to agents, the state agent 0 keeps, the launcher's own state.

`GangSpec`: written by launch, read by agents. `GangState`: written by agent 0 at every change and at least every
`flush_seconds`, read by launch, status, why and the report. `LaunchState`: written by launch, read by the same.
"""

from enum import StrEnum
from typing import Literal

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from components.contracts.checkpoint import VerifyLevel, Writers
from components.contracts.clock import UtcText
from components.contracts.document import Document
from components.contracts.lifecycle import RankState, RunState
from components.contracts.queue import QueueView
from components.contracts.retention import RetentionPolicy


class GangLimits(Document):
    """Seconds, each with a clock of its own."""

    start_seconds: PositiveFloat
    """From the gang's creation until every agent joined, passed the checks and started its ranks."""
    run_seconds: PositiveFloat
    """Ranks' running time, over all attempts and generations of the run."""
    no_progress_seconds: PositiveFloat
    """Longest time without a new step from any rank."""
    stop_seconds: PositiveFloat
    """From a stop until the ranks are killed; covers the commit of the last READY step."""


class CheckpointRule(Document):
    """When the program should checkpoint, whose marks count, and what happens after a commit."""

    every_steps: PositiveInt
    writers: Writers
    verify_level: VerifyLevel
    retain: RetentionPolicy
    verify_timeout_seconds: PositiveFloat = 3600.0
    """How long one verification may take during training."""
    retain_timeout_seconds: PositiveFloat = 1800.0
    """How long retention may take during training."""

    def writing_nodes(self, num_nodes: int) -> range:
        """The node ranks whose receipts a step needs: all, or the one that holds rank 0."""
        return range(num_nodes if self.writers == "all" else 1)


class ResumeRule(Document):
    """Where training starts from."""

    source: str
    """latest | fresh | step:<n> | <checkpoint id> | <experiment>@latest."""
    on_new_data: Literal["refuse", "continue"]


class AcceleratorRule(Document):
    """What `nvidia-smi` must report on every node."""

    model: str | None = None
    """Product name, as nvidia-smi or a Kubernetes label spells it: NVIDIA-H100-80GB-HBM3."""
    min_memory_gib: PositiveFloat | None = None
    """Memory of each device in GiB, at least."""
    min_driver: str | None = None
    """Driver version, at least; in quotes, for example "550.54"."""


class GangSpec(Document):
    """Everything an agent must know besides its node rank and the gang's secret."""

    kind: Literal["gang-spec"] = "gang-spec"
    version: Literal[1] = 1
    run: str
    generation: NonNegativeInt
    experiment: str
    model_version: str
    storage: str
    data_version: str
    num_nodes: PositiveInt
    nproc_per_node: PositiveInt
    command: tuple[str, ...]
    start: Literal["rank", "node"]
    workdir: str
    """Folder in which the program starts, in the code that travels with the run if any does; empty: the agent's own."""
    code: str | None = None
    """SHA-256 of the archive of that code."""
    env: dict[str, str]
    seed: int
    limits: GangLimits
    run_seconds_used: NonNegativeFloat
    """Running time of earlier generations, counted against `limits.run_seconds`."""
    max_restarts: NonNegativeInt
    checkpoint: CheckpointRule | None = None
    """None: `checkpoint: none`; restarts begin at step 0."""
    resume: ResumeRule
    memory_per_rank_bytes: NonNegativeInt
    accelerator: AcceleratorRule | None = None
    begin_reason: str
    """Why this generation exists; goes into its first BEGIN record."""
    begin_charged: bool
    """Whether this generation costs a restart."""
    restarts_used: NonNegativeInt = 0
    """Restarts the run has used when this generation is created, its own charge included. The ledger counts the same
    from BEGIN records; with `checkpoint: none` there are none, and this is what counts."""
    coordinator_host: str
    coordinator_port: NonNegativeInt
    """0: agent 0 takes a free port and writes `<host>:<port>` to `coordinator_file`."""
    coordinator_file: str
    """Local file for a coordinator port chosen by agent 0; empty when the port is fixed."""
    flush_seconds: PositiveFloat = 5.0

    @property
    def world_size(self) -> int:
        return self.num_nodes * self.nproc_per_node


class FailureKind(StrEnum):
    """What ended an attempt."""

    RANK_EXIT = "RankExit"
    """A rank ended with a non-zero exit code."""
    RANK_SIGNAL = "RankSignal"
    """A rank was killed by a signal that was not ours."""
    START_FAILED = "StartFailed"
    """The command could not be started: not found, not executable."""
    PORT_TAKEN = "PortTaken"
    """The rendezvous port was taken at start; never charged."""
    HANG = "Hang"
    AGENT_LOST = "AgentLost"
    GUARD_LOST = "GuardLost"
    START_DEADLINE = "StartDeadline"
    RUN_DEADLINE = "RunDeadline"


class Failure(Document):
    """The first failure of an attempt: the one that took the others down."""

    kind: FailureKind
    node_rank: NonNegativeInt | None = None
    rank: NonNegativeInt | None = None
    exit_code: int | None = None
    signal: str | None = None
    """For example SIGKILL."""
    message: str
    """One sentence; `also` is a part of it."""
    also: str | None = None
    """Which other ranks ended by themselves, and when: `rank 0 exited with code 1 0.004 s later`."""
    last_lines: tuple[str, ...] = ()
    """The failing rank's last output, control characters removed, at most 20 lines of 500 characters."""
    at: UtcText
    """UTC, ISO 8601."""


class RankView(Document):
    """One rank, as last heard of."""

    rank: NonNegativeInt
    node_rank: NonNegativeInt
    state: RankState
    pid: int | None = None
    step: int | None = None
    exit_code: int | None = None
    signal: str | None = None


class AttemptView(Document):
    """One START: a term of its own in the ledger."""

    term: NonNegativeInt
    """0 with `checkpoint: none`."""
    attempt: NonNegativeInt
    """Counts the STARTs of this generation from 0."""
    resumed_from: str | None = None
    resumed_step: NonNegativeInt = 0
    started_at: UtcText
    first_step_at: UtcText | None = None
    ended_at: UtcText | None = None
    first_step: int | None = None
    last_step: int | None = None
    outcome: Literal["running", "succeeded", "failed", "stopped"] = "running"
    failure: Failure | None = None
    charged: bool = False
    """Whether this attempt cost a restart."""


class StepView(Document):
    """Rank 0's progress at one step; missing figures were not reported."""

    step: NonNegativeInt
    at: UtcText
    loss: float | None = None
    tokens: int | None = None
    """Tokens the whole gang trained on in this step."""
    step_seconds: float | None = None
    data_seconds: float | None = None
    compute_seconds: float | None = None
    comm_seconds: float | None = None


class CheckpointView(Document):
    """A checkpoint's life during this generation."""

    checkpoint: str
    step: NonNegativeInt
    state: Literal["committed", "verified", "quarantined", "abandoned", "retired"]
    level: VerifyLevel | None = None
    reason: str = ""
    at: UtcText


class GangState(Document):
    """What agent 0 knows about its generation. Replaced as a whole, never appended to."""

    kind: Literal["gang-state"] = "gang-state"
    version: Literal[1] = 1
    run: str
    generation: NonNegativeInt
    state: RunState
    reason: str = ""
    """CamelCase, with `message`, when the state needs one."""
    message: str = ""
    world_size: PositiveInt
    num_joined: NonNegativeInt
    updated_at: UtcText
    created_at: UtcText
    ranks: tuple[RankView, ...] = ()
    attempts: tuple[AttemptView, ...] = ()
    steps: tuple[StepView, ...] = ()
    """At most 1 000; when there are more, every second is dropped until they fit, so the curve keeps its shape."""
    last_step: StepView | None = None
    total_steps: PositiveInt | None = None
    """How many steps the program said it will make."""
    checkpoints: tuple[CheckpointView, ...] = ()
    restarts_used: NonNegativeInt = 0
    run_seconds_used: NonNegativeFloat = 0
    exit_code: int | None = None
    """Agent 0's verdict, when final."""


class AgentProcess(Document):
    """An agent as a process of one machine; (host, boot, pid, start time) never names another."""

    node_rank: NonNegativeInt
    host: str
    boot_id: str
    pid: PositiveInt
    started: NonNegativeInt | None = None
    """Clock ticks since boot."""


class GenerationView(Document):
    """One generation as the launcher saw it."""

    generation: NonNegativeInt
    created_at: UtcText
    begin_reason: str = ""
    """Why this generation exists: FirstStart, AgentLost, LauncherLost, …"""
    charged: bool = False
    """Whether this generation cost a restart."""
    agents: tuple[AgentProcess, ...] = ()
    """Process backend only: what must be gone before a next generation starts."""
    nodes: tuple[str, ...] = ()
    """Kubernetes only: the nodes its pods ran on, by node rank; empty names where that is not known."""
    excluded_nodes: tuple[str, ...] = ()
    """Kubernetes nodes it had to avoid."""
    admitted_at: UtcText | None = None
    """With a queue: when it let the gang in."""
    queued_seconds: NonNegativeFloat | None = None
    """With a queue: how long the gang waited for that."""
    ended_at: UtcText | None = None
    exit_code: int | None = None
    reason: str = ""
    message: str = ""


class LaunchState(Document):
    """The launcher's own account, over all generations of the run."""

    kind: Literal["launch-state"] = "launch-state"
    version: Literal[1] = 1
    run: str
    backend: str
    state: RunState
    reason: str = ""
    message: str = ""
    fix: str = ""
    updated_at: UtcText
    generations: tuple[GenerationView, ...] = ()
    queue: QueueView | None = None
    """While the gang waits in a queue."""
    exit_code: int | None = None
