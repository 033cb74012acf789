"""The guard answers for every process of its ranks, relays all they say, and ends with its agent."""

import ast
import base64
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from components.guard.guard import is_exiting
from components.runtime.processes import become_subreaper, is_alive, kill_descendants
from tests.components.launch.stage import handles, wait_until

GUARD = Path("components/guard/guard.py").resolve()

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="PDEATHSIG and /proc are Linux's")


class AgentSide:
    """A guard of its own and the agent's end of its socket."""

    def __init__(self, folder: Path) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / "guard.sock"))
        self._listener.listen(1)
        self.process = subprocess.Popen([sys.executable, "-I", "-S", GUARD, "--socket", folder / "guard.sock"])
        self._listener.settimeout(10)
        self._link, _ = self._listener.accept()
        self._link.settimeout(10)
        self._file = self._link.makefile("rb")
        self.hello = self.next("hello")
        self.output: dict[tuple[int, str], bytearray] = {}

    def tell(self, **message: Any) -> None:
        self._link.sendall(json.dumps(message).encode() + b"\n")

    def start(self, *commands: list[str], env: dict[str, str | None] | None = None, cwd: str = "") -> None:
        ranks = [{"rank": rank, "argv": command, "env": env or {}, "cwd": cwd} for rank, command in enumerate(commands)]
        self.tell(type="start", attempt=1, ranks=ranks)

    def next(self, kind: str) -> dict[str, Any]:
        """The next message of that kind; output on the way is kept."""
        while line := self._file.readline():
            message: dict[str, Any] = json.loads(line)
            if message["type"] == "output":
                key = message["rank"], message["stream"]
                self.output.setdefault(key, bytearray()).extend(base64.b64decode(message["data"]))
            if message["type"] == kind:
                return message
        raise AssertionError(f"the guard left without a {kind!r}")

    def leave(self) -> None:
        self._file.close()
        self._link.close()

    def close(self) -> None:
        self.leave()
        self._listener.close()
        self.process.kill()
        self.process.wait()


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[AgentSide]:
    become_subreaper()
    side = AgentSide(tmp_path)
    yield side
    side.close()
    kill_descendants(os.getpid())


def python(text: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", text]


def wait_for(path: Path) -> str:
    deadline = time.monotonic() + 10
    while not path.exists() or not path.read_text().endswith("\n"):
        assert time.monotonic() < deadline, f"{path} never came"
        time.sleep(0.01)
    return path.read_text()


def gone(pid: int, seconds: float = 20) -> bool:
    deadline = time.monotonic() + seconds
    while is_alive(pid, None):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


# A child in the same session, one in a session of its own, a daemon that forked twice; all ignore SIGTERM.
FAMILY = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
def stay():
    with open(sys.argv[1], "a") as file:
        file.write(f"{os.getpid()}\\n")
    while True:
        time.sleep(60)
if os.fork() == 0:
    stay()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        stay()
    os._exit(0)
stay()
"""


def start_family(agent: AgentSide, folder: Path) -> list[int]:
    agent.start(["sh", "-c", f'{sys.executable} -IS -c "$1" {folder}/pids & wait', "sh", FAMILY])
    deadline = time.monotonic() + 10
    while not (folder / "pids").exists() or (folder / "pids").read_text().count("\n") < 3:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return [int(line) for line in (folder / "pids").read_text().split()]


def test_the_guard_needs_nothing_newer_than_python_3_8() -> None:
    ast.parse(GUARD.read_text(), feature_version=(3, 8))


def test_a_rank_gets_its_environment_and_folder_and_its_output_comes_back(agent: AgentSide, tmp_path: Path) -> None:
    code = "import os; print(os.getcwd(), os.environ['RANK'], os.environ.get('HOME'), os.getpid() == os.getsid(0))"
    agent.start(python(code), env={"RANK": "7", "HOME": None}, cwd=str(tmp_path))
    started, exited = agent.next("started"), agent.next("exited")
    assert started["ranks"][0]["rank"] == 0
    assert (exited["exit_code"], exited["ended_by_us"], exited["attempt"]) == (0, False, 1)
    assert agent.output[0, "stdout"].decode() == f"{tmp_path} 7 None True\n"


def test_all_output_precedes_the_exit_that_it_explains(agent: AgentSide) -> None:
    agent.start(python("import sys; sys.stderr.write('x' * 50000 + 'the end'); sys.exit(3)"))
    assert agent.next("exited")["exit_code"] == 3
    assert agent.output[0, "stderr"].endswith(b"the end")


def test_bytes_arrive_as_they_were_written(agent: AgentSide) -> None:
    agent.start(python("import os; os.write(1, bytes(range(256)) * 4096)"))
    agent.next("exited")
    assert agent.output[0, "stdout"] == bytes(range(256)) * 4096


def test_a_signal_is_named(agent: AgentSide) -> None:
    agent.start(python("import os; os.kill(os.getpid(), 11)"))
    exited = agent.next("exited")
    assert (exited.get("exit_code"), exited["signal"], exited["ended_by_us"]) == (None, "SIGSEGV", False)


@pytest.mark.parametrize(
    ("command", "cwd", "seen"),
    [
        (["no-such-program"], "", "No such file or directory: 'no-such-program'"),
        (["/etc/passwd"], "", "Permission denied"),
        (["true"], "/no/such/folder", "/no/such/folder"),
        (["a\0b"], "", "null byte"),
    ],
)
def test_a_command_that_cannot_start_says_why(agent: AgentSide, command: list[str], cwd: str, seen: str) -> None:
    agent.start(command, cwd=cwd)
    assert seen in agent.next("exited")["error"]
    assert agent.next("started")["ranks"] == []


def test_a_kill_reaches_every_descendant_whatever_it_ignores(agent: AgentSide, tmp_path: Path) -> None:
    pids = start_family(agent, tmp_path)
    agent.tell(type="kill", grace_seconds=0.3)
    exited = agent.next("exited")
    agent.next("killed")
    assert exited["ended_by_us"] is True
    assert all(gone(pid, 0.1) for pid in pids)


def test_a_kill_reaches_a_process_that_is_replaced_by_its_own_child_all_the_time(agent: AgentSide) -> None:
    replaced = (
        "import os, sys, time\nprint(flush=True)\nend = time.time() + 60\nwhile time.time() < end:\n"
        "    time.sleep(0.002)\n    os.fork() and os._exit(0)"
    )
    for _ in range(2):
        agent.start(python(replaced))
        agent.next("exited")
        agent.tell(type="kill", grace_seconds=0.05)
        agent.next("killed")
        assert Path(f"/proc/{agent.process.pid}/task/{agent.process.pid}/children").read_text() == ""


def test_a_kill_does_not_use_up_its_grace_when_nobody_needs_it(agent: AgentSide) -> None:
    agent.start(["sleep", "60"])
    begin = time.monotonic()
    agent.tell(type="kill", grace_seconds=30)
    assert agent.next("exited")["signal"] == "SIGTERM"
    agent.next("killed")
    assert time.monotonic() - begin < 25


def test_what_failed_before_the_kill_was_not_our_doing(agent: AgentSide) -> None:
    agent.start(python("import sys; sys.exit(5)"), ["sleep", "60"])
    first = agent.next("exited")
    agent.tell(type="kill", grace_seconds=0)
    second = agent.next("exited")
    assert (first["rank"], first["exit_code"], first["ended_by_us"]) == (0, 5, False)
    assert (second["rank"], second["ended_by_us"]) == (1, True)


def test_a_rank_that_is_given_time_ends_by_itself(agent: AgentSide, tmp_path: Path) -> None:
    agent.start(["sh", "-c", f"while [ ! -e {tmp_path / 'go'} ]; do sleep 0.02; done; exit 3"])
    agent.tell(type="kill", grace_seconds=30, patience_seconds=600)
    agent.tell(type="usage")
    agent.next("usage")  # so it knows of the kill
    (tmp_path / "go").touch()
    ending = agent.next("exited")
    assert (ending["exit_code"], ending["ended_by_us"]) == (3, False)
    agent.next("killed")


def test_a_second_kill_can_end_the_time_that_ranks_were_given(agent: AgentSide) -> None:
    agent.start(["sleep", "60"])
    agent.tell(type="kill", grace_seconds=30, patience_seconds=600)
    agent.tell(type="kill", grace_seconds=30)
    ending = agent.next("exited")
    assert (ending["signal"], ending["ended_by_us"]) == ("SIGTERM", True)
    agent.next("killed")


def test_time_that_is_not_used_runs_out(agent: AgentSide) -> None:
    agent.start(["sleep", "60"])
    agent.tell(type="kill", grace_seconds=30, patience_seconds=0.05)
    assert agent.next("exited")["ended_by_us"] is True
    agent.next("killed")


def test_a_process_whose_sockets_are_closed_already_ends_of_its_own() -> None:
    ended = subprocess.Popen(["true"])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)  # dead, and still in the table
    living = subprocess.Popen(["sleep", "60"])
    try:
        assert is_exiting(ended.pid)
        assert not is_exiting(living.pid)
    finally:
        living.kill()
        assert (ended.wait(), living.wait()) == (0, -signal.SIGKILL)
    assert not is_exiting(ended.pid)


def test_a_process_whose_first_thread_alone_has_ended_lives() -> None:
    program = (
        "import ctypes, threading, time\n"
        "threading.Thread(target=time.sleep, args=(60,)).start()\n"
        "print('up', flush=True)\n"
        "ctypes.CDLL(None).syscall(60 if __import__('platform').machine() == 'x86_64' else 93, 0)"
    )
    process = subprocess.Popen(python(program), stdout=subprocess.PIPE)
    try:
        assert process.stdout
        assert process.stdout.readline() == b"up\n"
        wait_until(
            lambda: Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z", "its end"
        )
        assert not is_exiting(process.pid)
    finally:
        process.kill()
        process.communicate()


def test_the_guard_ends_everything_when_its_agent_is_gone(agent: AgentSide, tmp_path: Path) -> None:
    pids = start_family(agent, tmp_path)
    agent.leave()
    assert agent.process.wait(30) == 0
    assert all(gone(pid, 0.1) for pid in pids)


def test_ranks_die_with_a_guard_that_is_killed(agent: AgentSide, tmp_path: Path) -> None:
    agent.start(python(f"import os, time; open('{tmp_path}/pid', 'w').write(f'{{os.getpid()}}\\n'); time.sleep(60)"))
    pid = int(wait_for(tmp_path / "pid"))
    agent.process.kill()
    assert gone(pid)


def test_sigterm_to_the_guard_is_passed_on_and_changes_nothing(agent: AgentSide) -> None:
    agent.start(["sleep", "60"])
    agent.next("started")
    for _ in range(3):
        agent.process.send_signal(signal.SIGTERM)
        assert agent.next("terminated")["signal"] == "SIGTERM"
    agent.tell(type="usage")
    assert agent.next("usage")["cpu_seconds"] >= 0
    assert agent.process.poll() is None


def test_a_signal_goes_through_shells_to_the_program(agent: AgentSide, tmp_path: Path) -> None:
    program = (
        "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(0));"
        f"open('{tmp_path}/ready', 'w').write('1\\n'); time.sleep(60)"
    )
    agent.start(["sh", "-c", f'cd / && {sys.executable} -IS -c "$1"; code=$?; echo "code $code"', "sh", program])
    wait_for(tmp_path / "ready")
    agent.tell(type="signal", signal="SIGTERM")
    assert agent.next("exited")["exit_code"] == 0
    assert agent.output[0, "stdout"] == b"code 0\n"


def test_a_signal_spares_the_children_of_the_program(agent: AgentSide, tmp_path: Path) -> None:
    # As PyTorch's DataLoader: when its workers are terminated, the program fails instead of saving its work.
    program = (
        "import os, signal, subprocess, sys, time; child = subprocess.Popen(['sleep', '60']);"
        "signal.signal(15, lambda *_: sys.exit(0 if child.poll() is None else 1));"
        f"open('{tmp_path}/ready', 'w').write('1\\n'); time.sleep(60)"
    )
    agent.start([sys.executable, "-c", program])
    wait_for(tmp_path / "ready")
    agent.tell(type="signal", signal="SIGTERM")
    assert agent.next("exited")["exit_code"] == 0


def test_a_flood_waits_for_a_slow_reader_without_filling_memory(agent: AgentSide) -> None:
    agent.start(python("import os\nfor _ in range(1000): os.write(1, b'x' * 65536)"))
    agent.next("started")
    time.sleep(0.5)
    memory = Path(f"/proc/{agent.process.pid}/status").read_text().split("VmHWM:")[1].split()[0]
    assert int(memory) < 60_000, "KiB"
    assert agent.next("exited")["exit_code"] == 0
    assert len(agent.output[0, "stdout"]) == 65_536_000


def test_a_kill_is_obeyed_while_nobody_reads_the_output(agent: AgentSide, tmp_path: Path) -> None:
    flood = python(
        f"import os\nopen('{tmp_path}/pid', 'w').write(f'{{os.getpid()}}\\n')\nwhile 1: os.write(1, b'x' * 65536)"
    )
    agent.start(flood)
    pid = int(wait_for(tmp_path / "pid"))
    time.sleep(0.3)
    agent.tell(type="kill", grace_seconds=0.2)
    assert gone(pid)
    agent.next("killed")


def test_a_second_attempt_starts_after_the_first_is_killed(agent: AgentSide) -> None:
    agent.start(["sleep", "60"])
    agent.tell(type="kill", grace_seconds=0.1)
    agent.next("killed")
    agent.start(python("print('again')"))
    assert agent.next("exited")["exit_code"] == 0
    assert agent.output[0, "stdout"] == b"again\n"


def test_readings_come_also_from_a_driver_that_fails(agent: AgentSide) -> None:
    agent.tell(type="readings", devices=["sh", "-c", "echo no devices; exit 9"])
    readings = agent.next("readings")
    assert readings["devices"] == {"is_there": True, "exit_code": 9, "output": "no devices\n"}
    assert readings["open_files"] > 0
    agent.tell(type="readings", devices=["no-such-driver"])
    assert agent.next("readings")["devices"] == {"is_there": False, "exit_code": None, "output": ""}


@pytest.mark.parametrize("seconds", ["30", "31"])
def test_a_guard_of_a_pod_whose_agent_does_not_come_leaves_with_a_code_that_tells(tmp_path: Path, seconds: str) -> None:
    become_subreaper()
    command = [sys.executable, "-I", "-S", str(GUARD), "--socket", str(tmp_path / "none.sock"), "--in-pod", seconds]
    shell = subprocess.Popen(
        ["sh", "-c", '"$@" & echo $!; read _', "sh", *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert shell.stdout is not None
    pid = int(shell.stdout.readline())
    wait_until(lambda: handles(pid, signal.SIGTERM), "the guard waits for its agent")
    shell.communicate()  # its parent goes, so it does not wait any longer
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 92


def test_exit_ends_the_guard(agent: AgentSide) -> None:
    agent.start(["sleep", "60"])
    agent.tell(type="exit")
    assert agent.process.wait(30) == 0
