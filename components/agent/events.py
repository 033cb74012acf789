"""What happens to the coordinator, and what it wants done: values only."""

from dataclasses import dataclass
from datetime import datetime

from components.agent.messages import FromNode, ToNode, Trouble
from components.contracts.checkpoint import VerifyLevel
from components.contracts.clock import utc_text


@dataclass(frozen=True)
class Moment:
    """Now, by two clocks."""

    seconds: float
    """Monotonic: limits are measured with it."""
    utc: datetime
    """For people."""

    @property
    def text(self) -> str:
        return utc_text(self.utc)


@dataclass(frozen=True)
class Heard:
    """A node said something."""

    node_rank: int
    message: FromNode


@dataclass(frozen=True)
class Lost:
    """A node's connection closed, or it has been silent too long."""

    node_rank: int
    why: str


@dataclass(frozen=True)
class Prepared:
    """The resume source is chosen, the term has begun, a port is free."""

    attempt: int
    term: int
    """0 with `checkpoint: none`."""
    source: str | None
    source_step: int
    folder: str | None
    master_port: int
    restarts_used: int
    """By the whole run, this start included."""


@dataclass(frozen=True)
class PrepareFailed:
    trouble: Trouble


@dataclass(frozen=True)
class Committed:
    term: int
    step: int
    checkpoint: str


@dataclass(frozen=True)
class CommitFailed:
    term: int
    step: int
    trouble: Trouble
    is_fenced: bool
    """A newer term has begun: another gang runs this experiment."""


@dataclass(frozen=True)
class VerifyEnded:
    """The verification of one checkpoint ended."""

    checkpoint: str
    exit_code: int
    message: str = ""
    level: VerifyLevel | None = None
    """How deeply it was read, when it is good: during training not always as deeply as described."""


@dataclass(frozen=True)
class RetainEnded:
    """The retention policy was applied."""

    retired: tuple[str, ...] = ()
    """Checkpoints that were deleted."""


@dataclass(frozen=True)
class Tick:
    """Time passed."""


Event = Heard | Lost | Prepared | PrepareFailed | Committed | CommitFailed | VerifyEnded | RetainEnded | Tick


@dataclass(frozen=True)
class Tell:
    """Send to one node, or to all when `node_rank` is None."""

    node_rank: int | None
    message: ToNode


@dataclass(frozen=True)
class Prepare:
    """Choose the resume source, begin a term, pick a port. Answered by Prepared or PrepareFailed."""

    attempt: int
    reason: str
    charged: bool


@dataclass(frozen=True)
class CommitStep:
    """Write the manifest and commit. Answered by Committed or CommitFailed."""

    term: int
    step: int
    parent: str | None
    metrics: dict[str, float]


@dataclass(frozen=True)
class VerifyStep:
    """Answered by VerifyEnded."""

    checkpoint: str


@dataclass(frozen=True)
class Retain:
    """Apply the retention policy. Answered by RetainEnded."""

    after: str
    """The checkpoint that was verified just before."""


Action = Tell | Prepare | CommitStep | VerifyStep | Retain
