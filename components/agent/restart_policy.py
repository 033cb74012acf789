"""Decides whether a failed attempt is followed by another one in place, and what is said when it is not."""

from collections.abc import Sequence
from dataclasses import dataclass

from components.contracts.gang import Failure, FailureKind
from components.errors import ExitCode

NO_PROGRESS_ATTEMPTS = 3
"""So many attempts in a row that get no further than the first of them: another restart would not help."""

MAX_PORT_RETRIES = 5
"""A port can be lost to somebody else once in a while, not again and again; from then on it counts as a failure."""


@dataclass(frozen=True)
class Restart:
    """The ranks are started again."""

    reason: str
    charged: bool
    """Whether it costs one of `max_restarts`."""


@dataclass(frozen=True)
class GiveUp:
    """The gang ends."""

    exit_code: ExitCode
    reason: str
    message: str


@dataclass(frozen=True)
class History:
    """What the run has spent and reached."""

    restarts_used: int
    max_restarts: int
    num_port_retries: int
    """In a row."""
    last_steps: Sequence[int | None]
    """The furthest step of each attempt of this generation; None where no rank reported one."""


def after_failure(failure: Failure, history: History) -> Restart | GiveUp:
    """What follows a failure of the ranks on healthy nodes.

    A command that cannot be started is final: it would fail in the same way again. Attempts that report no steps are
    never held against the program: it may get further each time without saying so.
    """
    if failure.kind is FailureKind.START_FAILED:
        return GiveUp(ExitCode.WORKER_FAILED, failure.kind.value, failure.message)
    if failure.kind is FailureKind.PORT_TAKEN and history.num_port_retries < MAX_PORT_RETRIES:
        return Restart(failure.kind.value, charged=False)
    used, budget = history.restarts_used, history.max_restarts
    if used >= budget:
        is_hang = failure.kind is FailureKind.HANG
        return GiveUp(
            ExitCode.HANG if is_hang else ExitCode.WORKER_FAILED, failure.kind.value if is_hang else "WorkerFailed",
            f"{failure.message}; {used} of {budget} restarts used",
        )  # fmt: skip
    if _stands_still(history.last_steps):
        return GiveUp(
            ExitCode.NO_PROGRESS, "NoProgress",
            f"{failure.message}; {NO_PROGRESS_ATTEMPTS} attempts in a row got no further than step "
            f"{history.last_steps[-NO_PROGRESS_ATTEMPTS]}",
        )  # fmt: skip
    return Restart(failure.kind.value, charged=True)


def _stands_still(last_steps: Sequence[int | None]) -> bool:
    first, *others = last_steps[-NO_PROGRESS_ATTEMPTS:] or [None]
    if first is None or len(others) + 1 < NO_PROGRESS_ATTEMPTS:
        return False
    return all(step is None or step <= first for step in others)
