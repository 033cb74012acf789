"""Deadline arithmetic: how long a leaf, a path of leaves and a whole Workflow may take."""

import math

BACKOFF_SECONDS = 3
"""Wait before the first retry. Short, because Argo waits it before it even asks whether to retry."""
BACKOFF_FACTOR = 3
BACKOFF_CAP_SECONDS = 60

LAUNCH_MARGIN_SECONDS = 300.0
"""What the launcher gets beside its gang's own limits, to adopt, decide and write."""

STOP_MARGIN_SECONDS = 10.0
"""What the launcher gets beside `limits.stop` to end its agents and write its last state, before SIGKILL."""

REPORT_SECONDS = 600.0
"""What the exit handler gets for the report, beside the gang's stop."""


def finish_timeout(stop_seconds: float) -> float:
    """One attempt of the exit handler: leftovers may take `stop_seconds`, then the report is written."""
    return stop_seconds + REPORT_SECONDS


def backoff_seconds(retries: int) -> float:
    """All waits between `retries` + 1 attempts: 3, 9, 27, 60, 60 ... seconds."""
    return float(sum(min(BACKOFF_CAP_SECONDS, BACKOFF_SECONDS * BACKOFF_FACTOR**attempt) for attempt in range(retries)))


def stage_seconds(timeout: float, retries: int) -> float:
    """The longest a leaf can take: every attempt to its deadline (whole seconds), every backoff waited."""
    return (retries + 1) * math.ceil(timeout) + backoff_seconds(retries)


def path_seconds(*parts: float) -> float:
    """The longest a sequence of leaves can take."""
    return sum(parts)
