"""A whole run on this machine, seen and disturbed from outside: by its command line, its files and its processes."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

ROOT = Path(__file__).parent.parent.parent
T = TypeVar("T")

ROLES: Mapping[str, str] = {
    "engine": "infra.local",
    "launcher": "components.launch",
    "agent": "components.agent",
    "guard": "guard.py",
    "rank": "components.trainer",
}
"""What the command line of each kind of process holds."""


class LocalRun:
    """One experiment in an ARGOSY_HOME of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.log = home / "terminal.log"
        home.mkdir(parents=True, exist_ok=True)
        self.env = {**os.environ, "ARGOSY_HOME": str(home), "PYTHONUNBUFFERED": "1"}
        self.process: subprocess.Popen[bytes] | None = None

    def command(self, *arguments: str, timeout: float = 60) -> "subprocess.CompletedProcess[str]":
        """Another command of the entry point, to its end."""
        return subprocess.run(
            [sys.executable, str(ROOT / "pipelines/train.py"), *arguments],
            env=self.env, cwd=self.home, capture_output=True, text=True, timeout=timeout, check=False,
        )  # fmt: skip

    def start(self, *arguments: str) -> None:
        """`submit` or `resume` in the background, its output in `terminal.log`."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(ROOT / "pipelines/train.py"), *arguments],
                env=self.env, cwd=self.home, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            )  # fmt: skip

    def finish(self, timeout: float = 240) -> int:
        """The exit code of what `start` began."""
        assert self.process is not None
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError(f"not finished after {timeout} s:\n{self.terminal()[-4000:]}") from None

    def terminal(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""

    @property
    def name(self) -> str:
        return wait_until(lambda: next((path.name for path in sorted((self.home / "runs").glob("*-?????"))), None))

    @property
    def storage(self) -> Path:
        return self.home / "storage"

    def gang_states(self) -> list[dict[str, Any]]:
        """Agent 0's account of each generation, oldest first."""
        folder = self.storage / "runs" / self.name / "gang"
        paths = sorted(folder.glob("g*/state.json"), key=lambda path: int(path.parent.name[1:]))
        return [json.loads(path.read_text()) for path in paths]

    def wait_for_step(self, step: int, *, timeout: float = 120) -> None:
        """Until rank 0 is seen at `step` or later."""

        def reached() -> bool:
            states = self.gang_states()
            assert self.process is None or self.process.poll() is None, f"ended early:\n{self.terminal()[-3000:]}"
            return bool(states) and (states[-1].get("last_step") or {"step": -1})["step"] >= step

        wait_until(reached, timeout=timeout)

    def losses(self) -> dict[int, float]:
        """Loss of each step; of a step that was trained twice, the later one."""
        return {step["step"]: step["loss"] for state in self.gang_states() for step in state["steps"]}

    def processes(self, role: str | None = None) -> list[int]:
        """Living processes of this run; with `role` those of that kind, oldest first."""
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) in (os.getpid(), self.process and self.process.pid):
                continue
            try:
                environ, cmdline = (entry / "environ").read_bytes(), (entry / "cmdline").read_bytes()
                state = (entry / "stat").read_bytes().rpartition(b")")[2].split()[0]
            except OSError:
                continue
            ours = str(self.home).encode() in environ or str(self.home).encode() in cmdline
            if ours and state not in (b"Z", b"X") and (role is None or ROLES[role].encode() in cmdline):
                found.append(int(entry.name))
        return sorted(found)

    def kill(self, role: str, *, which: int = 0) -> None:
        """SIGKILL one process of that kind."""
        os.kill(wait_until(lambda: self.processes(role))[which], signal.SIGKILL)

    def assert_nothing_left(self, *, seconds: float = 10) -> None:
        deadline = time.monotonic() + seconds
        while (left := self.processes()) and time.monotonic() < deadline:
            time.sleep(0.05)
        names = [Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()[:200] for pid in left]
        assert left == [], f"still running: {names}"


def wait_until(look: Callable[[], T | None], *, timeout: float = 60) -> T:
    """The first true answer of `look`; fails after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while True:
        answer = look()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"nothing after {timeout} s")
        time.sleep(0.05)
