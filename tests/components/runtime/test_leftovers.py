"""Orphans of a gang are found by what they inherited, and ended."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from components.runtime.leftovers import MARK, Process, end_leftovers, gang_mark, marked_processes
from components.runtime.processes import start_time

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

SLEEP = "import signal,time; {}; print('up', flush=True); time.sleep(60)"


@contextmanager
def sleeper(mark: str, first: str = "0") -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(
        [sys.executable, "-S", "-c", SLEEP.format(first)], env={**os.environ, MARK: mark}, stdout=subprocess.PIPE,
        text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    with process:
        yield process
        process.kill()


def test_a_process_is_found_by_its_mark_and_not_by_anothers() -> None:
    with sleeper(gang_mark("file:///a", "exp-11111")) as process:
        assert [found.pid for found in marked_processes(gang_mark("file:///a", "exp-11111"))] == [process.pid]
        assert marked_processes(gang_mark("file:///b", "exp-11111")) == []
        assert marked_processes(gang_mark("file:///a", "exp-1111")) == []


def test_what_is_marked_is_killed_when_it_does_not_end_by_itself() -> None:
    with sleeper("mark-1") as process:
        killed, left = end_leftovers("mark-1", [], patience_seconds=0.1)
        assert process.wait(5) == -signal.SIGKILL
        assert [one.pid for one in killed] == [process.pid]
        assert list(left) == []


def test_recorded_processes_are_asked_first() -> None:
    with sleeper("mark-2") as process:
        recorded = [Process(process.pid, start_time(process.pid))]
        killed, _ = end_leftovers("mark-2", recorded, patience_seconds=5.0, terminate=True)
        assert process.wait(5) == -signal.SIGTERM
        assert list(killed) == []


def test_a_recycled_pid_is_left_alone() -> None:
    with sleeper("mark-3") as process:
        end_leftovers("another", [Process(process.pid, 1)], patience_seconds=0.0, terminate=True)
        assert process.poll() is None


def test_nothing_left_costs_no_time() -> None:
    started = time.monotonic()
    assert end_leftovers("nobody", [], patience_seconds=300.0) == ([], [])
    assert time.monotonic() - started < 60
