"""Finds and ends processes of a gang whose launcher is gone: by a mark in their environment, and by pid.

Every process of a gang inherits the mark, so one that was orphaned and left its session is still found.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from components.runtime.processes import descendants, is_alive, start_time

MARK = "ARGOSY_GANG"
"""Environment variable: whose gang a process belongs to. Set by the launcher, inherited by agents, guards and ranks."""

_POLL_SECONDS = 0.05
_KILL_SECONDS = 5.0


@dataclass(frozen=True)
class Process:
    """One process; a recycled pid has another start time."""

    pid: int
    started: int | None

    @property
    def runs(self) -> bool:
        return is_alive(self.pid, self.started)


def gang_mark(storage: str, run: str) -> str:
    """The value of MARK for a run: the same name under another storage is another run."""
    return f"{run}@{storage}"


def marked_processes(mark: str, *, variable: str = MARK) -> list[Process]:
    """Every running process of this user, but this one, that carries `mark` in its environment."""
    wanted = f"{variable}={mark}".encode()
    found = []
    for entry in os.scandir("/proc") if sys.platform == "linux" else ():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            environ = Path(entry.path, "environ").read_bytes()
        except OSError:
            continue  # gone meanwhile, or somebody else's
        if wanted in environ.split(b"\0"):
            found.append(Process(int(entry.name), start_time(int(entry.name))))
    return [process for process in found if process.runs]


def end_leftovers(
    mark: str, recorded: Iterable[Process], *, patience_seconds: float, terminate: bool = False
) -> tuple[Sequence[Process], Sequence[Process]]:
    """Wait until nothing of a gang runs; after `patience_seconds` kill what does. Returns (killed, unkillable).

    With `terminate` the recorded processes, the agents, first get a SIGTERM: they stop their gang themselves.
    """
    agents = [process for process in recorded if process.started is not None]

    def left() -> list[Process]:
        return list({process.pid: process for process in [*_alive(agents), *marked_processes(mark)]}.values())

    if terminate:
        _signal(_alive(agents), signal.SIGTERM)
    _wait(left, patience_seconds)
    killed: dict[int, Process] = {}
    deadline = time.monotonic() + _KILL_SECONDS
    while (found := left()) and time.monotonic() < deadline:
        victims = _with_descendants(found)
        killed.update({process.pid: process for process in victims})
        _signal(victims, signal.SIGKILL)
        time.sleep(_POLL_SECONDS)
    return list(killed.values()), left()


def _alive(processes: Iterable[Process]) -> list[Process]:
    return [process for process in processes if process.runs]


def _with_descendants(processes: Sequence[Process]) -> list[Process]:
    below = {child for process in processes for child in descendants(process.pid)} - {os.getpid()}
    return [*processes, *(Process(pid, start_time(pid)) for pid in below)]


def _signal(processes: Iterable[Process], number: int) -> None:
    for process in processes:
        try:
            if process.runs:
                os.kill(process.pid, number)
        except (ProcessLookupError, PermissionError):
            continue  # gone meanwhile; one that may not be killed is reported as left over


def _wait(left: Callable[[], list[Process]], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and left():
        time.sleep(min(4 * _POLL_SECONDS, max(0.0, deadline - time.monotonic())))
