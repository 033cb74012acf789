"""Starts real ranks as torchrun would: processes that know each other by environment variables only."""

import json
import os
import random
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]


@dataclass
class Ranks:
    """One start of all ranks."""

    folder: Path
    processes: list["subprocess.Popen[str]"] = field(default_factory=list)

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    def wait(self, timeout: float = 120) -> list[int]:
        """Exit codes in rank order; everything is killed when one of them does not end in time."""
        try:
            return [process.wait(timeout) for process in self.processes]
        finally:
            for process in self.processes:
                process.kill()
                process.wait()

    def output(self, rank: int = 0) -> str:
        return (self.folder / f"output-{rank}").read_text()

    def progress(self, rank: int = 0) -> list[dict[str, Any]]:
        return read_progress(self.folder / f"progress-{rank}")

    def losses(self) -> dict[int, str]:
        """Loss by step, as the hexadecimal of its bits."""
        return {line["step"]: line["loss"].hex() for line in self.progress()}


def train_forked(world_size: int, folder: Path, argv: Sequence[str], *, env: Mapping[str, str]) -> Ranks:
    """The trainer on `world_size` ranks, to the end; torch is imported once for all of them."""
    folder.mkdir(parents=True)
    ranks = Ranks(folder)
    gang = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "ARGOSY_CHECKPOINTS": str(ranks.checkpoints)}
    program = [
        sys.executable,
        "-m",
        "tests.components.trainer.fork_trainers",
        str(world_size),
        str(folder),
        "--",
        *argv,
    ]
    ended = subprocess.run(program, env={**os.environ, **gang, **env}, cwd=ROOT, timeout=240, check=False)
    assert ended.returncode == 0, ranks.output()
    return ranks


def read_progress(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def start_ranks(
    world_size: int, folder: Path, argv: Sequence[str], *, env: Mapping[str, str], argosy: bool = True
) -> Ranks:
    """Start `argv` (after the interpreter) on `world_size` ranks of one node; `argosy` adds the gang's own paths."""
    folder.mkdir(parents=True, exist_ok=True)
    ranks = Ranks(folder)
    port = free_port()
    for rank in range(world_size):
        place = {
            "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world_size),
            "LOCAL_WORLD_SIZE": str(world_size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
            "OMP_NUM_THREADS": "1",
        }  # fmt: skip
        if argosy:
            place["ARGOSY_CHECKPOINTS"] = str(ranks.checkpoints)
            place["ARGOSY_PROGRESS"] = str(folder / f"progress-{rank}")
            place["ARGOSY_STOP"] = str(folder / "stop")
        with (folder / f"output-{rank}").open("w") as output:
            ranks.processes.append(
                subprocess.Popen(
                    [sys.executable, *argv], env={**os.environ, **place, **env}, cwd=ROOT, text=True,
                    stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                )
            )  # fmt: skip
    return ranks


def free_port() -> int:
    """A port nobody listens on, below those the kernel gives to outgoing connections: one of them could take it."""
    while True:
        port = random.randrange(20000, 32000)
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
