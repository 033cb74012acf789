"""What runs a gang's agents: one protocol, so that the launcher decides the same on one machine and on a cluster."""

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from components.contracts.gang import AgentProcess, GangSpec
from components.contracts.pods import LostNodeRule, QueueRule
from components.launch.queue import QueueStanding


class AgentPhase(StrEnum):
    """Where one agent stands, whatever its program does."""

    PENDING = "pending"
    """Not started yet: a pod without a node, an image being pulled."""
    RUNNING = "running"
    EXITED = "exited"


NODE_LOST = "NodeLost"
"""A disruption: the Kubernetes node does not answer any more, or is gone."""
POD_DELETED = "PodDeleted"
"""A disruption: somebody deleted the pod."""

_MAX_LINE = 300


@dataclass(frozen=True)
class AgentStatus:
    """One agent as the backend sees it from outside."""

    node_rank: int
    phase: AgentPhase
    exit_code: int | None = None
    """None unless it exited by itself."""
    signal: str | None = None
    """For example SIGKILL; None unless a signal ended it."""
    ended_by_us: bool = False
    """The launcher killed it, so the way it ended says nothing."""
    last_line: str = ""
    """The last thing it wrote to its own output, when it ended badly."""
    fate: str = ""
    """What became of it, where neither exit code nor signal tell."""
    where: str = ""
    """Name of the Kubernetes node."""
    waiting: str = ""
    """While it is pending: what for."""
    disruption: str = ""
    """Why the cluster took it away: NODE_LOST, POD_DELETED, or the reason of its DisruptionTarget condition."""
    followed: bool = False
    """It was told to go because another one had ended, or by us: that it stopped is nobody's wish."""
    node_lost: bool = False
    """Its machine does not answer, so nobody can say whether it still runs."""
    is_unstartable: bool = False
    """The program's container cannot even run the guard; no other try will."""

    @property
    def has_exited(self) -> bool:
        return self.phase is AgentPhase.EXITED

    def ending(self) -> str:
        """`exited with code 92`, `was killed by SIGKILL`; with what it last said."""
        how = f"was killed by {self.signal}" if self.signal else self.fate or f"exited with code {self.exit_code}"
        return how + (f' (last line: "{self.last_line}")' if self.last_line else "")


def last_line(text: str) -> str:
    """The last line that says something: of a JSON log line its message; no control characters, at most 300 others."""
    line = next((line for line in reversed(text.splitlines()) if line.strip()), "")
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        fields = None
    words = str(fields["message"]) if isinstance(fields, dict) and "message" in fields else line
    return "".join(char for char in words if char.isprintable())[:_MAX_LINE]


@dataclass(frozen=True)
class MeetingPoint:
    """Where the agents of a generation find agent 0."""

    host: str
    port: int = 0
    """0: agent 0 takes a free one and says so in `file`."""
    file: str = ""


class GangBackend(Protocol):
    """Starts, watches and removes one generation at a time. `observe` never blocks."""

    name: str
    replaces_nodes: bool
    """Whether a new generation can run on other nodes than the last one."""
    survives_launcher: bool
    """Whether the gang trains on when the launcher is gone, for the next one to adopt."""
    poll_seconds: float
    """How often to look for what no event tells: agent 0's state, and the ranks' logs."""
    lost_node: LostNodeRule | None
    """What to do about a node that does not answer; None where there is no such thing."""
    queue: QueueRule | None
    """In which the gang waits before it is started; None: in none."""

    def remove_earlier(self, agents: tuple[AgentProcess, ...]) -> None:
        """Make sure that nothing of earlier generations runs. Raises EnvironmentUnfit when something survives."""

    def meeting_point(self, generation: int) -> MeetingPoint:
        """Of a generation that is about to be started."""

    def start(self, spec: GangSpec, *, excluded_nodes: tuple[str, ...] = ()) -> tuple[AgentProcess, ...]:
        """Create the agents of a generation. Returns how to recognise them later, where that means something."""

    def adopt(self, spec: GangSpec) -> bool:
        """Take a generation over that an earlier launcher started. False when there is none, or it is going."""

    def observe(self) -> tuple[AgentStatus, ...]:
        """Every agent of this generation, by node rank."""

    def queue_standing(self, *, since: str, was_admitted: bool) -> QueueStanding | None:
        """What the queue says about this generation, which began to wait at `since`; None without a queue."""

    def stop(self) -> None:
        """Ask every agent to stop the gang gracefully."""

    def remove(self) -> None:
        """End whatever is left of this generation, at once. Raises EnvironmentUnfit when something survives."""
