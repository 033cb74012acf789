"""What runs a gang's agents: one protocol, so that the launcher decides the same on one machine and on a cluster."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from components.contracts.gang import AgentProcess, GangSpec


class AgentPhase(StrEnum):
    """Where one agent stands, whatever its program does."""

    PENDING = "pending"
    """Not started yet: a pod without a node, an image being pulled."""
    RUNNING = "running"
    EXITED = "exited"


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

    @property
    def has_exited(self) -> bool:
        return self.phase is AgentPhase.EXITED

    def ending(self) -> str:
        """`exited with code 92`, `was killed by SIGKILL`; with what it last said."""
        how = f"was killed by {self.signal}" if self.signal else f"exited with code {self.exit_code}"
        return how + (f' (last line: "{self.last_line}")' if self.last_line else "")


class GangBackend(Protocol):
    """Starts, watches and removes one generation at a time. `observe` never blocks."""

    name: str
    replaces_nodes: bool
    """Whether a new generation can run on other nodes than the last one."""

    def remove_earlier(self, agents: tuple[AgentProcess, ...]) -> None:
        """Make sure that nothing of earlier generations runs. Raises EnvironmentUnfit when something survives."""

    def start(self, spec: GangSpec) -> tuple[AgentProcess, ...]:
        """Create the agents of a generation. Returns how to recognise them later, where that means something."""

    def observe(self) -> tuple[AgentStatus, ...]:
        """Every agent of this generation, by node rank."""

    def stop(self) -> None:
        """Ask every agent to stop the gang gracefully."""

    def remove(self) -> None:
        """End whatever is left of this generation, at once. Raises EnvironmentUnfit when something survives."""
