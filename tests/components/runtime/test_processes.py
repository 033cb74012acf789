"""No process outlives the one that answers for it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from components.runtime.processes import boot_id, descendants, is_alive, kill_descendants, start_time

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="PDEATHSIG and /proc are Linux's")

PARENT = """
import sys, time
from components.runtime.processes import spawn
child = spawn([sys.executable, "-c", "import time; time.sleep(60)"])
print(child.pid, flush=True)
time.sleep(60)
"""

# A shell wrapper, a grandchild in a session of its own, and a daemon that forked twice.
FAMILY = """
import os, subprocess, sys, time
from components.runtime.processes import become_subreaper, kill_descendants, descendants
become_subreaper()
subprocess.Popen(["sh", "-c", "sleep 61 & sleep 62; true"], start_new_session=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execvp("sleep", ["sleep", "63"])
    os._exit(0)
os.wait()
time.sleep(0.3)
before = list(descendants(os.getpid()))
print(len(before), kill_descendants(os.getpid()), len(list(descendants(os.getpid()))), flush=True)
"""

# Replaced by its own child every few milliseconds: /proc cannot be read that fast.
REPLACED = """
import os, subprocess, sys, time
from components.runtime.processes import become_subreaper, kill_descendants
become_subreaper()
for _ in range(4):
    code = "import os, time\\nend = time.time() + 60\\n"
    code += "while time.time() < end:\\n    time.sleep(0.002)\\n    os.fork() and os._exit(0)"
    subprocess.Popen([sys.executable, "-S", "-E", "-c", code]).wait()
    assert kill_descendants(os.getpid())
    while True:
        try:
            assert os.waitpid(-1, os.WNOHANG) != (0, 0), "one still lives"
        except ChildProcessError:
            break
"""


@pytest.fixture
def environ() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": "."}


def _gone_within(pid: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not is_alive(pid, None):
            return True
        time.sleep(0.01)
    return False


def test_a_spawned_child_dies_with_its_parent_even_by_kill_9(environ: dict[str, str]) -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT], env=environ, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    assert is_alive(child, start_time(child))
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()

    assert _gone_within(child, 5)


def test_a_process_that_is_replaced_by_its_own_child_all_the_time_is_killed(environ: dict[str, str]) -> None:
    subprocess.run([sys.executable, "-c", REPLACED], env=environ, timeout=60, check=True)


def test_every_descendant_is_killed_also_those_that_left_the_session(environ: dict[str, str]) -> None:
    result = subprocess.run(
        [sys.executable, "-c", FAMILY], env=environ, capture_output=True, text=True, timeout=30, check=True
    )
    before, all_gone, after = result.stdout.split()

    assert int(before) >= 4
    assert (all_gone, after) == ("True", "0")


def test_a_zombie_is_not_alive_and_a_reused_pid_is_another_process() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    started = start_time(child.pid)
    assert started is not None
    assert _gone_within(child.pid, 5)
    child.wait()

    assert not is_alive(child.pid, started)
    assert not is_alive(os.getpid(), started - 1)
    assert is_alive(os.getpid(), start_time(os.getpid()))


def test_nothing_to_kill_is_success() -> None:
    assert kill_descendants(2**22 + 1)
    assert list(descendants(2**22 + 1)) == []


def test_the_boot_is_named() -> None:
    assert boot_id() == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
