"""The one lifecycle people see, for a run, its gang and its ranks."""

from enum import StrEnum


class RunState(StrEnum):
    """Submitted, Queued, Starting, Running <-> Restarting | Preempted, then Succeeded | Failed | Stopped; Cleaned."""

    SUBMITTED = "Submitted"
    QUEUED = "Queued"
    STARTING = "Starting"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    PREEMPTED = "Preempted"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    STOPPED = "Stopped"
    CLEANED = "Cleaned"

    @property
    def is_final(self) -> bool:
        return self in (RunState.SUCCEEDED, RunState.FAILED, RunState.STOPPED, RunState.CLEANED)


class RankState(StrEnum):
    """What one rank is doing."""

    STARTING = "Starting"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    KILLED = "Killed"
    """Ended by us because another rank failed, or because of a stop."""
