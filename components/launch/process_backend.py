"""Runs a gang on this machine: every agent is a child process that cannot outlive the launcher.

Agents get SIGKILL from the kernel when the launcher is gone, however it went; guards kill their ranks when their agent
is gone. What escapes both, a daemon of a daemon, is adopted by the launcher (a subreaper) and killed at the end.
"""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from components.contracts.gang import AgentProcess, GangSpec
from components.contracts.pods import LostNodeRule, QueueRule
from components.errors import EnvironmentUnfit
from components.launch.backend import AgentPhase, AgentStatus, MeetingPoint, last_line
from components.launch.queue import QueueStanding
from components.runtime.leftovers import MARK, Process, end_leftovers
from components.runtime.processes import become_subreaper, boot_id, kill_descendants, signal_name, spawn, start_time

AGENT_COMMAND = (sys.executable, "-m", "components.agent")

_CHECKOUT = Path(__file__).resolve().parents[2]
_EARLIER_SECONDS = 5.0
"""Guards notice at once that their agent is gone and kill their ranks; a busy machine needs a moment for it."""
_KILL_SECONDS = 10.0
_TAIL_BYTES = 4096


@dataclass
class _Agent:
    node_rank: int
    process: "subprocess.Popen[bytes]"
    output: Path
    ended_by_us: bool = False


class ProcessBackend:
    """A gang of agents on this machine. Use it from the main thread only: the kernel's promise follows the thread."""

    name = "process"
    replaces_nodes = False
    survives_launcher = False
    poll_seconds = 0.5
    lost_node: LostNodeRule | None = None
    queue: QueueRule | None = None

    def __init__(
        self, *, folder: Path, mark: str, environ: Mapping[str, str], agent_command: Sequence[str] = AGENT_COMMAND
    ) -> None:
        """`folder` is where each generation gets its own; `mark` names the run in the environment of its processes."""
        self._folder = folder
        self._mark = mark
        self._environ = dict(environ)
        self._command = tuple(agent_command)
        self._agents: list[_Agent] = []
        become_subreaper()

    def remove_earlier(self, agents: tuple[AgentProcess, ...]) -> None:
        here = (socket.gethostname(), boot_id())
        recorded = [Process(agent.pid, agent.started) for agent in agents if (agent.host, agent.boot_id) == here]
        _, left = end_leftovers(self._mark, recorded, patience_seconds=_EARLIER_SECONDS)
        if left:
            raise _unkillable([process.pid for process in left])

    def meeting_point(self, generation: int) -> MeetingPoint:
        return MeetingPoint("127.0.0.1", file=str(self._folder / f"g{generation}" / "coordinator"))

    def adopt(self, spec: GangSpec) -> bool:
        return False

    def queue_standing(self, *, since: str, was_admitted: bool) -> QueueStanding | None:
        return None

    def start(self, spec: GangSpec, *, excluded_nodes: tuple[str, ...] = ()) -> tuple[AgentProcess, ...]:
        folder = self._folder / f"g{spec.generation}"
        self._drop_staged()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            spec_file = folder / "spec.json"
            spec_file.write_bytes(spec.to_bytes())
            secret = secrets.token_hex(32).encode()
            self._agents = []
            for node_rank in range(spec.num_nodes):
                self._agents.append(self._start_agent(folder, spec_file, node_rank, secret))
        except OSError as error:
            self.remove()
            raise EnvironmentUnfit(
                "AgentNotStarted", f"cannot start the agents in {folder}: {error}", "check that folder and its disk"
            ) from error
        host, boot = socket.gethostname(), boot_id()
        return tuple(
            AgentProcess(
                node_rank=agent.node_rank, host=host, boot_id=boot,
                pid=agent.process.pid, started=start_time(agent.process.pid),
            )
            for agent in self._agents
        )  # fmt: skip

    def observe(self) -> tuple[AgentStatus, ...]:
        statuses = tuple(_status(agent) for agent in self._agents)
        _reap_adopted(keep={agent.process.pid for agent in self._agents})
        return statuses

    def stop(self) -> None:
        for agent in self._agents:
            if agent.process.poll() is None:
                agent.process.send_signal(signal.SIGTERM)

    def remove(self) -> None:
        for agent in self._agents:
            if agent.process.poll() is None:
                agent.ended_by_us = True
                agent.process.kill()
        for agent in self._agents:
            try:
                agent.process.wait(timeout=_KILL_SECONDS)
            except subprocess.TimeoutExpired:
                raise _unkillable([agent.process.pid]) from None
        if not kill_descendants(os.getpid()):
            raise _unkillable([])

    def _drop_staged(self) -> None:
        """Free what ranks of earlier generations staged and nobody published: checkpoints can be large."""
        for attempt in self._folder.glob("g*/node-*/attempt-*"):
            shutil.rmtree(attempt, ignore_errors=True)

    def _start_agent(self, folder: Path, spec_file: Path, node_rank: int, secret: bytes) -> _Agent:
        node_folder = folder / f"node-{node_rank}"
        node_folder.mkdir(exist_ok=True)
        output = node_folder / "agent.out"
        path = os.pathsep.join(filter(None, (str(_CHECKOUT), self._environ.get("PYTHONPATH", ""))))
        read_end, write_end = os.pipe()
        try:
            os.write(write_end, secret)
            with output.open("ab") as stream:
                process = spawn(
                    [
                        *self._command, "--spec-file", str(spec_file), "--node-rank", str(node_rank),
                        "--workdir", str(node_folder), "--secret-fd", str(read_end),
                    ],
                    env={**self._environ, "PYTHONPATH": path, MARK: self._mark},
                    cwd=node_folder, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, pass_fds=(read_end,),
                )  # fmt: skip
        finally:
            os.close(write_end)
            os.close(read_end)
        return _Agent(node_rank, process, output)


def _status(agent: _Agent) -> AgentStatus:
    code = agent.process.poll()
    if code is None:
        return AgentStatus(agent.node_rank, AgentPhase.RUNNING)
    return AgentStatus(
        agent.node_rank, AgentPhase.EXITED,
        exit_code=code if code >= 0 else None,
        signal=signal_name(-code) if code < 0 else None,
        ended_by_us=agent.ended_by_us,
        last_line=_last_line_of(agent.output) if code else "",
    )  # fmt: skip


def _last_line_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            return last_line(file.read().decode("utf-8", "replace"))
    except OSError:
        return ""


def _reap_adopted(keep: set[int]) -> None:
    """Collect orphans that came to us, but leave the agents' exit codes to their Popen."""
    while True:
        try:
            dead = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if dead is None or dead.si_pid in keep:
            return
        os.waitpid(dead.si_pid, os.WNOHANG)


def _unkillable(pids: Sequence[int]) -> EnvironmentUnfit:
    named = f": {', '.join(str(pid) for pid in sorted(pids))}" if pids else ""
    return EnvironmentUnfit(
        "LeftoverProcesses", f"processes of this run's gang survive SIGKILL{named}",
        "they hang in the kernel (a dead file server, a GPU driver): free them or restart the machine, then `resume`",
    )  # fmt: skip
