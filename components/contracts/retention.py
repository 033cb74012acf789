"""The retention policy as described, and the plan that follows from it.

Written by retain and by agent 0 during training; read by the report and the command line.
"""

from typing import Annotated, Literal

from pydantic import Field, PositiveFloat, PositiveInt

from components.contracts.document import Document


class KeepBest(Document):
    """Keep the `count` verified checkpoints with the best value of `metric`."""

    metric: str = "loss"
    """Name of a number that rank 0 reports in its progress lines."""
    mode: Literal["min", "max"] = "min"
    """Whether the best is the smallest (min) or the largest (max)."""
    count: PositiveInt = 1
    """How many to keep: 1 or more."""


class RetentionPolicy(Document):
    """What to keep. A checkpoint is kept when any rule keeps it; verified ones only are counted."""

    keep_last: Annotated[int, Field(ge=2)] = 3
    """Newest verified checkpoints to keep; 1 is refused, because a second copy is what saves a damaged newest one."""
    keep_every_steps: PositiveInt | None = None
    """Keep every verified checkpoint whose step is a multiple of this."""
    keep_best: KeepBest | None = None
    """Keep the verified checkpoints with the best value of a metric as well."""
    keep_for: PositiveFloat | None = None
    """Seconds for which every verified checkpoint is kept, counted from the time recorded at its commit."""


class Decision(Document):
    """What happens to one checkpoint, and why."""

    checkpoint: str
    step: int
    action: Literal["keep", "delete"]
    reason: str


class RetentionPlan(Document):
    """The decision for every committed checkpoint, newest first."""

    kind: Literal["retention-plan"] = "retention-plan"
    version: Literal[1] = 1
    decisions: tuple[Decision, ...]

    @property
    def kept(self) -> tuple[str, ...]:
        return tuple(item.checkpoint for item in self.decisions if item.action == "keep")

    @property
    def deleted(self) -> tuple[str, ...]:
        return tuple(item.checkpoint for item in self.decisions if item.action == "delete")
