"""Containers that run now: started, watched for deadlines, told to stop, killed. One supervisor each."""

import os
import signal
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from components.runtime.processes import kill_descendants
from infra.local.program import Leaf
from infra.local.supervisor import KILL_ALL

_SUPERVISOR_PATIENCE_SECONDS = 10.0


@dataclass
class Running:
    """One running attempt. Moments are `time.monotonic()`."""

    node: str
    attempt: int
    leaf: Leaf
    folder: Path
    pid: int
    deadline_at: float | None
    deadline_message: str = ""
    """Set when a deadline ended it."""
    kill_at: float | None = None
    """End of its grace, once it was told to stop."""
    killed_at: float | None = None

    def tell_to_stop(self, now: float) -> None:
        """SIGTERM, and SIGKILL when the grace is over. Once."""
        if self.kill_at is None:
            self.kill_at = now + self.leaf.grace_seconds
            _signal(self.pid, signal.SIGTERM)

    def kill(self, now: float) -> None:
        """SIGKILL for everything it started."""
        if self.killed_at is None:
            self.killed_at = self.kill_at = now
            _signal(self.pid, KILL_ALL)

    def wake_at(self) -> float | None:
        """When it next needs attention by itself."""
        if self.killed_at is not None:
            return self.killed_at + _SUPERVISOR_PATIENCE_SECONDS
        return self.deadline_at if self.kill_at is None else self.kill_at

    def attend(self, now: float, deadline_message: str) -> None:
        """Enforce its deadline and its grace."""
        if self.deadline_at is not None and now >= self.deadline_at and self.kill_at is None:
            self.deadline_message = deadline_message
            self.deadline_at = None
            self.tell_to_stop(now)
        if self.kill_at is not None and now >= self.kill_at:
            self.kill(now)
        if self.killed_at is not None and now >= self.killed_at + _SUPERVISOR_PATIENCE_SECONDS:
            self.killed_at = now
            _signal(self.pid, signal.SIGKILL)  # the supervisor itself hangs; what it held falls to the engine


def reap(running: Mapping[int, Running]) -> Iterator[tuple[Running, int]]:
    """Attempts that have ended since the last look, with their exit codes."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        if pid not in running:
            continue  # an orphan of a supervisor that was killed
        code = os.waitstatus_to_exitcode(status)
        if code < 0:
            # A supervisor that was killed could not clean up; its processes are our children now.
            kill_descendants(os.getpid(), keep=frozenset(running.keys() - {pid}))
            code = 128 - code
        yield running[pid], code


def kill_all(running: Mapping[int, Running]) -> None:
    """SIGKILL everything and wait until it is gone."""
    for item in running.values():
        item.kill(time.monotonic())
    give_up_at = time.monotonic() + _SUPERVISOR_PATIENCE_SECONDS
    left = set(running)
    while left and time.monotonic() < give_up_at:
        left -= {item.pid for item, _ in reap({pid: running[pid] for pid in left})}
        time.sleep(0.002)
    kill_descendants(os.getpid())


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
