"""A real engine in a process of its own, as `submit` starts it, but with its exit code in reach."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from components.runtime.processes import descendants
from infra.local.client import create_run
from infra.local.run_dir import CHECKOUT, RunDir
from infra.local.state import LocalRunState

PATIENCE_SECONDS = 30.0


class EngineProcess:
    """One run in `home`, and the engine that runs it now."""

    def __init__(self, home: Path, manifest: Mapping[str, Any], *, run: str = "run-1", **parameters: str) -> None:
        self.run_dir: RunDir = create_run(
            home=home, manifest=manifest, run=run, experiment="e", model_version="v1", parameters=parameters,
            description={}, argv=["submit"],
        )  # fmt: skip
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *flags: str, shell: str = "") -> "EngineProcess":
        """`shell` runs first in the same process, for limits."""
        command = [sys.executable, "-m", "infra.local", "--run-dir", str(self.run_dir.path), *flags]
        if shell:
            command = ["bash", "-c", f'{shell}; exec "$@"', "bash", *command]
        with open(self.run_dir.engine_log_path, "ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
            )  # fmt: skip
        return self

    def wait(self) -> int:
        assert self.process is not None
        return self.process.wait(PATIENCE_SECONDS)

    def run(self, *flags: str) -> int:
        return self.start(*flags).wait()

    @property
    def state(self) -> LocalRunState:
        return self.run_dir.state()

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def phases(self) -> dict[str, str]:
        return {name: node.phase for name, node in self.state.nodes.items()}

    def output(self, node: str, attempt: int = -1) -> str:
        return (self.run_dir.path / self.state.nodes[node].attempts[attempt].log_path).read_text()

    def family(self) -> list[int]:
        return list(descendants(self.pid))

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def until(self, holds: Callable[[LocalRunState], bool]) -> LocalRunState:
        """Wait until the state is so."""
        return until(lambda: state if holds(state := self.state) else None)

    def until_running(self, node: str, attempt: int = 0) -> LocalRunState:
        return self.until(lambda state: node in state.nodes and len(state.nodes[node].attempts) > attempt)

    def until_said(self, node: str, words: str, attempt: int = 0) -> None:
        """Wait until that attempt has written `words`."""
        self.until_running(node, attempt)
        until(lambda: words in self.output(node, attempt))

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill()


def until(look: Callable[[], Any]) -> Any:
    """The first true thing `look` sees."""
    give_up_at = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < give_up_at:
        seen = look()
        if seen:
            return seen
        time.sleep(0.01)
    raise AssertionError("it did not happen")
