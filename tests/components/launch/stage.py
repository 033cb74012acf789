"""Runs the launch stage as the engine does: a process of its own, in an attempt's folder, judged by what it leaves."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from components.contracts.gang import GangLimits, LaunchState, ResumeRule
from components.contracts.layout import launch_state_key, shard_manifest_key
from components.launch.spec import LaunchSpec
from components.runtime.leftovers import gang_mark, marked_processes
from components.storage.base import ObjectStore, open_store

CHECKOUT = Path(__file__).resolve().parents[3]
FAKE_STAGE = (sys.executable, str(CHECKOUT / "tests" / "fakes" / "launch_with_fake_agent.py"))
REAL_STAGE = (sys.executable, "-m", "components.launch")

LIMITS = GangLimits(start_seconds=20.0, run_seconds=300.0, no_progress_seconds=60.0, stop_seconds=2.0)


def a_spec(**changes: Any) -> LaunchSpec:
    values: dict[str, Any] = {
        "experiment": "exp", "model_version": "v1", "num_nodes": 2, "nproc_per_node": 1, "command": ("true",),
        "start": "rank", "backend": "auto", "env": {}, "seed": 1, "limits": LIMITS, "max_restarts": 2,
        "checkpoint": None, "resume": ResumeRule(source="latest", on_new_data="refuse"), "memory_per_rank_bytes": 0,
        "timeout_seconds": 600.0, **changes,
    }  # fmt: skip
    return LaunchSpec(**values)


def plan(*generations: dict[str, str]) -> dict[str, str]:
    """`launch.env` that tells the fake agents what to do, a dict a generation."""
    return {"FAKE_AGENT": json.dumps(list(generations))}


@dataclass
class Place:
    """One run's storage and folders on this machine."""

    folder: Path
    run: str = "exp-abcde"
    data_version: str = "data1"
    num_attempts: int = 0
    started: list["subprocess.Popen[str]"] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store.create(shard_manifest_key(self.data_version), b"{}")

    @property
    def store(self) -> ObjectStore:
        return open_store(self.storage)

    @property
    def storage(self) -> str:
        return f"file://{self.folder}/storage"

    @property
    def stop_file(self) -> Path:
        return self.folder / "stop.json"

    @property
    def state(self) -> LaunchState:
        return LaunchState.from_bytes(self.store.read(launch_state_key(self.run)), where="launch.json")

    def processes(self) -> list[int]:
        """Everything of this run's gang that runs."""
        return [process.pid for process in marked_processes(gang_mark(self.storage, self.run))]

    def start(
        self, spec: LaunchSpec, *, stage: tuple[str, ...] = FAKE_STAGE, run: str = "",
        inputs: Mapping[str, str] = {}, **environ: str,
    ) -> "Stage":  # fmt: skip
        folder = self.folder / f"attempt-{self.num_attempts}"
        (folder / "out").mkdir(parents=True)
        argv = [
            *stage, "--spec", spec.to_bytes().decode(), "--storage", self.storage, "--run", run or self.run,
            "--workflow", self.run, "--experiment", spec.experiment, "--task", "launch",
            "--attempt", str(self.num_attempts), "--workdir", str(self.folder),
            "--input", f"data_version={self.data_version}",
            *(word for name, value in inputs.items() for word in ("--input", f"{name}={value}")),
        ]  # fmt: skip
        env = {
            **os.environ, "PYTHONPATH": str(CHECKOUT), "ARGOSY_TARGET": "local", "ARGOSY_OUT": str(folder / "out"),
            "ARGOSY_STOP_FILE": str(self.stop_file), "ARGOSY_TERMINATION_LOG": str(folder / "last-words"), **environ,
        }  # fmt: skip
        with (folder / "output.log").open("w") as output:
            process = subprocess.Popen(argv, cwd=folder, env=env, stdout=output, stderr=output, text=True)
        self.started.append(process)
        self.num_attempts += 1
        return Stage(process, folder)

    def wait_for_state(self, state: str, *, generation: int = 0) -> None:
        path = self.folder / "storage" / "runs" / self.run / "gang" / f"g{generation}" / "state.json"
        wait_until(lambda: path.exists() and json.loads(path.read_text())["state"] == state, f"generation is {state}")

    def close(self) -> None:
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.wait()
        for pid in self.processes():
            os.kill(pid, signal.SIGKILL)


@dataclass
class Stage:
    """One attempt of the stage."""

    process: "subprocess.Popen[str]"
    folder: Path

    def wait(self, seconds: float = 60.0) -> int:
        """The exit code."""
        return self.process.wait(timeout=seconds)

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    @property
    def last_words(self) -> str:
        return (self.folder / "last-words").read_text()

    @property
    def outputs(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in (self.folder / "out").iterdir()}

    @property
    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / "output.log").read_text().splitlines()]


def handles(pid: int, number: signal.Signals) -> bool:
    """Whether a process has come so far as to have a handler for that signal."""
    status = Path(f"/proc/{pid}/status").read_text()
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught.split()[1], 16) >> (number - 1) & 1)


def wait_until(holds: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.05)
