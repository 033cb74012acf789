"""Plays kubelet: each node of a gang as the two containers of its pod, agent and guard strangers to each other."""

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from types import MappingProxyType
from typing import Any

from components.ledger.ledger import claim, is_gone, this_process
from tests.components.agent.gang import Gang, put_data_set

GUARD = Path("components/guard/guard.py").resolve()


class Pod:
    """One node."""

    def __init__(self, folder: Path, spec_file: Path, secret_file: Path, index: int, env: Mapping[str, str]) -> None:
        self.folder = folder
        self.work = folder / "work"
        self.bin = folder / "bin"
        self.work.mkdir(parents=True)
        self.bin.mkdir()
        subprocess.run([sys.executable, "-m", "components.agent.handover", self.bin], check=True, env=dict(env))
        self.agent_argv = [
            sys.executable, "-m", "components.agent", "--spec-file", spec_file, "--secret-file", secret_file,
            "--workdir", self.work, "--guard-socket", self.work / "guard.sock",
        ]  # fmt: skip
        self.env = {**env, "JOB_COMPLETION_INDEX": str(index), "ARGOSY_NODE": f"node-{index}"}
        self.agent = self.start_agent()
        with (folder / "program.out").open("wb") as out:
            # A container of its own: another environment, and no relation to the agent's process.
            self.program = subprocess.Popen(
                [sys.executable, "-I", "-S", self.bin / "guard.py", "--socket", self.work / "guard.sock",
                 "--in-pod", "30"],
                env={"PATH": os.environ["PATH"], "IN_THE_PROGRAMS_CONTAINER": "yes", "JOB_COMPLETION_INDEX": "7"},
                cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
            )  # fmt: skip

    def start_agent(self) -> "subprocess.Popen[bytes]":
        """As kubelet does again when a sidecar ends before its pod."""
        with (self.folder / "agent.out").open("ab") as out:
            return subprocess.Popen(
                self.agent_argv, env=self.env, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
            )

    def delete(self) -> None:
        """SIGTERM reaches the sidecar only after the program's container has ended."""
        self.program.send_signal(signal.SIGTERM)

    def wait(self, deadline: float) -> int:
        """The pod's exit code; both containers have ended."""
        code = self.program.wait(max(0.1, deadline - time.monotonic()))
        self.agent.send_signal(signal.SIGTERM)
        self.agent.wait(max(0.1, deadline - time.monotonic()))
        return code

    def kill(self) -> None:
        for process in (self.program, self.agent):
            process.kill()
            process.wait()


class PodGang(Gang):
    """A generation whose nodes are pods."""

    def __init__(
        self, folder: Path, command: list[str], *, environ: Mapping[str, str] = MappingProxyType({}), **changes: Any
    ) -> None:
        super().__init__(
            folder,
            command,
            environ=environ,
            coordinator_host="0.0.0.0",  # every address, as in a pod; to connect there is to connect here
            coordinator_file="",
            coordinator_port=free_port(),
            **{"workdir": "", **changes},
        )
        self.pods: list[Pod] = []

    def start(self, *, secrets_of: dict[int, bytes] | None = None) -> "PodGang":
        if self.spec.checkpoint is not None:
            claim(self.ledger, run=self.spec.run, owner=this_process(target="local"), is_gone=is_gone)
        put_data_set(self.store)
        spec_file, secret_file = self.folder / "spec.json", self.folder / "secret"
        spec_file.write_bytes(self.spec.to_bytes())
        secret_file.write_text(secrets.token_hex(32))
        for index in range(self.spec.num_nodes):
            self.pods.append(Pod(self.folder / f"pod-{index}", spec_file, secret_file, index, self.environ))
        self.agents = [pod.agent for pod in self.pods]
        return self

    def wait(self, seconds: float = 60) -> list[int]:
        deadline = time.monotonic() + seconds
        try:
            return [pod.wait(deadline) for pod in self.pods]
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running: {self.said()}") from None

    def close(self) -> None:
        for pod in self.pods:
            pod.kill()
        super().close()

    def said(self) -> str:
        out = sorted(self.folder.glob("pod-*/*.out"))
        return "\n".join(f"--- {path}\n{path.read_text(errors='replace')[-3000:]}" for path in out)


def free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        return int(listener.getsockname()[1])
