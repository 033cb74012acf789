"""Why the launcher was told to go: somebody asked for a stop, its own deadline passed, or nobody knows."""

import os
import time
from collections.abc import Callable

from components.launch.failure_policy import StopCause

DEADLINE_SLACK_SECONDS = 2.0
"""Whoever enforces the deadline counts from before this process was up."""


class Intent:
    """Read once, at the first SIGTERM; a second one, or a stop asked for later, changes nothing."""

    def __init__(
        self, told_to_go: Callable[[], bool], *, stop_file: str, timeout_seconds: float,
        ask: Callable[[], StopCause | None] = lambda: None, clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        """`stop_file` exists when a stop was asked for; empty: nobody can. `ask` is asked once, in a cluster."""
        self._ask = ask
        self._told_to_go, self._stop_file, self._clock = told_to_go, stop_file, clock
        self._deadline = clock() + timeout_seconds - DEADLINE_SLACK_SECONDS
        self._cause: StopCause | None = None

    def __call__(self) -> StopCause | None:
        """None until a SIGTERM came."""
        if self._cause is None and self._told_to_go():
            if self._stop_file and os.path.exists(self._stop_file):
                self._cause = StopCause.REQUESTED
            elif self._clock() >= self._deadline:
                self._cause = StopCause.DEADLINE
            else:
                self._cause = self._ask() or StopCause.INTERRUPTED
        return self._cause
