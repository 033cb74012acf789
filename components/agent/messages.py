"""What agents say to each other: every message a strict document, so that nothing unexpected gets past the door.

From a node to the coordinator: `FromNode`. From the coordinator to a node: `ToNode`. Both ways, every second: Beat.
"""

from typing import Annotated, Literal, TypeVar

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveInt, TypeAdapter, ValidationError

from components.contracts.checks import CheckResult
from components.contracts.document import Document
from components.contracts.gang import StepView
from components.errors import ArgosyError, ExitCode


class Beat(Document):
    """Alive. The coordinator's tells its time, which an agent answers at once with that and its own."""

    kind: Literal["beat"] = "beat"
    at: float | None = None
    """Unix time by the sender's clock."""
    answers: float | None = None
    """The `at` of the coordinator's beat."""


class Joined(Document):
    """An agent is there; `probe_port` answers to a connection from its peers."""

    kind: Literal["joined"] = "joined"
    host: str
    pid: PositiveInt
    probe_host: str = ""
    """As the coordinator sees this node; it fills this in."""
    probe_port: NonNegativeInt


class Checked(Document):
    """What this node's checks found, its connections to its peers among them."""

    kind: Literal["checked"] = "checked"
    results: tuple[CheckResult, ...]


class Trouble(Document):
    """Why something could not be done, as an exit code, a reason and a sentence."""

    exit_code: int
    reason: str
    message: str

    @classmethod
    def of(cls, error: ArgosyError | OSError) -> "Trouble":
        """What the storage or this machine refused; the machine's own words mean that this node is unfit."""
        if isinstance(error, ArgosyError):
            return cls(exit_code=int(error.exit_code), reason=error.reason, message=str(error))
        message = f"{type(error).__name__}: {error}"
        return cls(exit_code=int(ExitCode.NODE_UNFIT), reason="NodeRefused", message=message)


class Fetched(Document):
    """The data set is on this node, or why it, or the checkpoint to resume from, is not."""

    kind: Literal["fetched"] = "fetched"
    failure: Trouble | None = None


class StartedRank(Document):
    rank: NonNegativeInt
    pid: PositiveInt


class Started(Document):
    """The guard started this node's ranks; those that could not be started are in RankExited."""

    kind: Literal["started"] = "started"
    attempt: NonNegativeInt
    ranks: tuple[StartedRank, ...]


class RankExited(Document):
    """One rank ended: an exit code, a signal, or the error that kept it from starting."""

    kind: Literal["rank-exited"] = "rank-exited"
    attempt: NonNegativeInt
    rank: NonNegativeInt
    exit_code: int | None = None
    signal: str | None = None
    error: str | None = None
    ended_by_us: bool = False
    """After we sent it a signal."""
    at: float
    """Unix time by this node's clock; the coordinator puts it in its own."""
    within: NonNegativeFloat = 0
    """To how many seconds the coordinator's translation of `at` is right; it fills this in."""
    last_lines: tuple[str, ...] = ()


class Progressed(Document):
    """What happened since the last one."""

    kind: Literal["progressed"] = "progressed"
    attempt: NonNegativeInt
    reports_steps: bool
    """Whether a rank of this attempt wrote a progress line."""
    steps: dict[int, int] = {}
    """The newest step of each rank that made one."""
    views: tuple[StepView, ...] = ()
    """Rank 0's steps, in order."""
    metrics: dict[int, dict[str, float]] = {}
    """What rank 0 reported at these steps, besides times."""
    total_steps: PositiveInt | None = None
    activity: NonNegativeFloat = 0
    """Bytes of output plus seconds of CPU time: grows when a program without progress lines does something."""


class Published(Document):
    """This node's files of one step and its receipt are in the store."""

    kind: Literal["published"] = "published"
    term: PositiveInt
    step: NonNegativeInt


class PublishFailed(Document):
    """This node's files of one step could not be published."""

    kind: Literal["publish-failed"] = "publish-failed"
    term: PositiveInt
    step: NonNegativeInt
    trouble: Trouble


class Down(Document):
    """No process of this attempt is left on this node."""

    kind: Literal["down"] = "down"
    attempt: NonNegativeInt


class Drained(Document):
    """Down, and whatever was READY has been published or has failed to be."""

    kind: Literal["drained"] = "drained"
    attempt: NonNegativeInt


class GuardLost(Document):
    """The guard is gone; the agent killed what it left."""

    kind: Literal["guard-lost"] = "guard-lost"
    message: str


class Terminated(Document):
    """SIGTERM reached this node's agent or guard."""

    kind: Literal["terminated"] = "terminated"


class Peer(Document):
    node_rank: NonNegativeInt
    host: str
    port: NonNegativeInt


class Check(Document):
    """Everybody is there: check this node and connect to these peers."""

    kind: Literal["check"] = "check"
    peers: tuple[Peer, ...]


class Fetch(Document):
    """Every node is fit: bring the data set to this one."""

    kind: Literal["fetch"] = "fetch"


class Start(Document):
    """Start the ranks."""

    kind: Literal["start"] = "start"
    attempt: NonNegativeInt
    term: NonNegativeInt
    """0 with `checkpoint: none`."""
    master_addr: str
    master_port: PositiveInt
    resume_folder: str | None = None
    """Key of the checkpoint's folder; None for a fresh start."""


class Stop(Document):
    """Let the ranks save and go: SIGTERM and the stop file."""

    kind: Literal["stop"] = "stop"


class Kill(Document):
    """End the ranks, then publish what is READY. Answered by Down and Drained. A second one can make it faster."""

    kind: Literal["kill"] = "kill"
    attempt: NonNegativeInt
    patience_seconds: NonNegativeFloat = 0
    """How long ranks may first end by themselves: one that does was not ended by us."""


class Discard(Document):
    """This staged step is committed, or abandoned and replaced by a later one: delete it."""

    kind: Literal["discard"] = "discard"
    term: PositiveInt
    step: NonNegativeInt


class Finish(Document):
    """The gang's verdict: leave with this exit code."""

    kind: Literal["finish"] = "finish"
    exit_code: int
    reason: str
    message: str


FromNode = (
    Joined | Checked | Fetched | Started | RankExited | Progressed | Published | PublishFailed | Down | Drained
    | GuardLost | Terminated
)  # fmt: skip
ToNode = Check | Fetch | Start | Stop | Kill | Discard | Finish
Message = TypeVar("Message")

_from_node: TypeAdapter[FromNode | Beat] = TypeAdapter(Annotated[FromNode | Beat, Field(discriminator="kind")])
_to_node: TypeAdapter[ToNode | Beat] = TypeAdapter(Annotated[ToNode | Beat, Field(discriminator="kind")])


class BadMessage(Exception):
    """A peer sent something that is not a message: another version, or a fault. The connection is not worth keeping."""


def read_from_node(data: bytes) -> FromNode | Beat:
    """Raises BadMessage."""
    return _read(_from_node, data)


def read_to_node(data: bytes) -> ToNode | Beat:
    """Raises BadMessage."""
    return _read(_to_node, data)


def _read(adapter: TypeAdapter[Message], data: bytes) -> Message:
    try:
        return adapter.validate_json(data)
    except ValidationError as error:
        raise BadMessage(f"{data[:200]!r}: {error.errors()[0]['msg']}") from error
