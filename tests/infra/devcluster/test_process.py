"""When a recorded process is still that process."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from components.runtime.processes import boot_id
from infra.devcluster import process
from infra.devcluster.process import end, is_alive, put_aside


def _start_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def test_a_recorded_process_is_known_again_until_it_ends() -> None:
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    record = {"pid": child.pid, "start": _start_of(child.pid), "boot": boot_id()}
    assert is_alive(record)
    child.communicate()
    assert not is_alive(record)


def test_a_zombie_is_dead() -> None:
    child = subprocess.Popen(["true"])
    record = {"pid": child.pid, "start": _start_of(child.pid), "boot": boot_id()}
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it has ended; nobody has asked for its exit code yet
    assert not is_alive(record)
    child.wait()


def test_a_process_is_ended_but_never_another_that_has_its_number() -> None:
    child = subprocess.Popen(["sleep", "60"])
    record = {"pid": child.pid, "start": _start_of(child.pid), "boot": boot_id()}
    assert end({**record, "boot": "another"}, signal.SIGKILL)
    assert is_alive(record)
    assert end(record, signal.SIGTERM)
    assert child.wait() == -signal.SIGTERM
    assert end(record, signal.SIGKILL)


def test_a_number_used_again_is_another_process() -> None:
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    assert not is_alive({"pid": child.pid, "start": _start_of(child.pid) - 1, "boot": boot_id()})
    child.communicate()


def test_nothing_outlives_a_reboot() -> None:
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    assert not is_alive({"pid": child.pid, "start": _start_of(child.pid), "boot": "another"})
    child.communicate()


def test_a_long_log_is_put_aside_and_a_short_one_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "OLD_LOG", 10)
    log = tmp_path / "argo.log"
    log.write_text("short")
    put_aside(log)
    assert log.read_text() == "short"

    log.write_text("longer than ten bytes")
    put_aside(log)
    assert not log.exists()
    assert (tmp_path / "argo.log.1").read_text() == "longer than ten bytes"
