"""Plays the launcher: real agents as processes, a real ledger, small programs as ranks."""

import hashlib
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from components.contracts.dataset import PackingCounts, PackingOptions, Shard, ShardManifest, StoredFile
from components.contracts.gang import CheckpointRule, GangLimits, GangSpec, GangState, ResumeRule
from components.contracts.layout import (
    gang_state_key,
    log_folder,
    node_stream,
    rank_stream,
    shard_key,
    shard_manifest_key,
)
from components.contracts.retention import RetentionPolicy
from components.ledger.ledger import Ledger, LedgerState, claim, is_gone, this_process
from components.runtime.processes import descendants, is_alive, kill_descendants
from components.storage.base import ObjectNotFound, ObjectStore
from components.storage.local import LocalStore

Value = TypeVar("Value")

# A worker of the contract, without torch: steps, progress, checkpoints, stop, resume. Its state is a number.
WORKER = r"""
import json, os, signal, sys, time
from pathlib import Path
rank, steps = int(os.environ["RANK"]), int(sys.argv[1])
options = dict(item.split("=") for item in sys.argv[2:])
attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
resume, every = os.environ["ARGOSY_RESUME"], int(os.environ.get("ARGOSY_CHECKPOINT_EVERY_STEPS", 0))
begin = json.loads(Path(resume, "state.json").read_text())["step"] if resume else 0
print(f"rank {rank} starts at step {begin}", flush=True)
signal.signal(signal.SIGTERM, lambda *_: None)

def save(step):
    folder = Path(os.environ["ARGOSY_CHECKPOINTS"], f"step-{step}")
    if options.get("writers") == "all":
        folder.mkdir(exist_ok=True)
        (folder / f"rank-{rank}.json").write_text(json.dumps({"step": step}))
        (folder / "state.json").write_text(json.dumps({"step": step})) if rank == 0 else None
        (folder / f"READY.{rank}").touch()
    elif rank == 0:
        folder.mkdir()
        (folder / "state.json").write_text(json.dumps({"step": step}))
        (folder / "READY").touch()

def wait_for_peers(step):
    "As a collective would: nobody is more than one step ahead, and who waits for the dead waits for ever."
    folder, world = Path(os.environ["MEETING"], str(attempt)), int(os.environ["WORLD_SIZE"])
    folder.mkdir(parents=True, exist_ok=True)
    if rank == 0 and os.path.exists(os.environ["ARGOSY_STOP"]) and not list(folder.glob("stop-*")):
        (folder / f"stop-{step}").touch()  # rank 0 decides for all at which step to stop, before that step
    (folder / f"{step}-{rank}").touch()
    while not all((folder / f"{step}-{peer}").exists() for peer in range(world)):
        time.sleep(0.005)
    return (folder / f"stop-{step}").exists()

for step in range(begin + 1, steps + 1):
    is_last = wait_for_peers(step)
    if options.get("hang") == f"{rank}:{step}" and attempt == 0:
        time.sleep(600)
    time.sleep(float(options.get("pace", 0.02)))
    with open(os.environ["ARGOSY_PROGRESS"], "a") as file:
        line = {"step": step, "loss": 1 / step, "step_s": 0.02, "tokens": 64, "total_steps": steps}
        file.write(json.dumps(line) + "\n")
    if every and step % every == 0:
        save(step)
    if options.get("fail") == f"{rank}:{step}" and attempt < int(options.get("times", 1)):
        print(f"rank {rank} fails at step {step}", file=sys.stderr, flush=True)
        os._exit(7)
    if is_last:
        if every and step % every:
            save(step)
        print(f"rank {rank} stops at step {step}", flush=True)
        sys.exit(0)
print(f"rank {rank} is done", flush=True)
"""


class Gang:
    """One generation. `start` it, watch it, `wait` for its agents' exit codes."""

    def __init__(
        self, folder: Path, command: list[str], *, store: ObjectStore | None = None,
        environ: Mapping[str, str] = MappingProxyType({}), **changes: Any,
    ) -> None:  # fmt: skip
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.store = store or LocalStore(folder / "storage")
        self.environ = {**os.environ, "ARGOSY_CACHE": str(folder / "cache"), **environ, "PYTHONPATH": os.getcwd()}
        self.agents: list[subprocess.Popen[bytes]] = []
        limits = {"start_seconds": 30.0, "run_seconds": 60.0, "no_progress_seconds": 20.0, "stop_seconds": 10.0}
        limits.update(changes.pop("limits", {}))
        meeting = folder / f"meeting-{changes.get('generation', 0)}"
        values: dict[str, Any] = {
            "run": "toy-bcdfg", "generation": 0, "experiment": "toy", "model_version": "v1", "storage": self.store.uri,
            "data_version": "d-1", "num_nodes": 2, "nproc_per_node": 1, "command": tuple(command), "start": "rank",
            "workdir": str(folder), "env": {"MEETING": str(meeting)}, "seed": 1, "limits": GangLimits(**limits),
            "run_seconds_used": 0.0,
            "max_restarts": 3, "checkpoint": None, "resume": ResumeRule(source="latest", on_new_data="refuse"),
            "memory_per_rank_bytes": 0, "begin_reason": "FirstStart", "begin_charged": False,
            "coordinator_host": "127.0.0.1", "coordinator_port": 0, "coordinator_file": str(folder / "coordinator"),
            "flush_seconds": 0.3,
        }  # fmt: skip
        self.spec = GangSpec.model_validate({**values, **changes})
        self.ledger = Ledger(self.store, self.spec.experiment, self.spec.model_version)

    def start(self, *, secrets_of: dict[int, bytes] | None = None) -> "Gang":
        if self.spec.checkpoint is not None:
            claim(self.ledger, run=self.spec.run, owner=this_process(target="local"), is_gone=is_gone)
        put_data_set(self.store)
        Path(self.spec.coordinator_file).unlink(missing_ok=True)
        spec_file = self.folder / "spec.json"
        spec_file.write_bytes(self.spec.to_bytes())
        common = secrets.token_hex(32).encode()
        self.agents = [
            self._agent(spec_file, rank, (secrets_of or {}).get(rank, common)) for rank in range(self.spec.num_nodes)
        ]
        return self

    def _agent(self, spec_file: Path, node_rank: int, secret: bytes) -> "subprocess.Popen[bytes]":
        read_end, write_end = os.pipe()
        os.write(write_end, secret)
        os.close(write_end)
        workdir = self.folder / f"g{self.spec.generation}" / f"node-{node_rank}"
        workdir.mkdir(parents=True, exist_ok=True)
        with (workdir / "agent.out").open("wb") as out:
            agent = subprocess.Popen(
                [
                    sys.executable, "-m", "components.agent", "--spec-file", spec_file, "--node-rank", str(node_rank),
                    "--workdir", workdir, "--secret-fd", str(read_end),
                ],
                env=self.environ, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                pass_fds=(read_end,), start_new_session=True,
            )  # fmt: skip
        os.close(read_end)
        return agent

    def stop(self) -> None:
        for agent in self.agents:
            agent.send_signal(signal.SIGTERM)

    def wait(self, seconds: float = 40) -> list[int]:
        """The agents' exit codes, node by node; no process of the gang may be left."""
        deadline = time.monotonic() + seconds
        codes = []
        for agent in self.agents:
            try:
                codes.append(agent.wait(max(0.1, deadline - time.monotonic())))
            except subprocess.TimeoutExpired:
                raise AssertionError(f"still running: {self.said()}") from None
        return codes

    def close(self) -> None:
        for agent in self.agents:
            agent.kill()
            agent.wait()
        kill_descendants(os.getpid())

    # --- looking at it

    @property
    def state(self) -> GangState | None:
        key = gang_state_key(self.spec.run, generation=self.spec.generation)
        try:
            return GangState.from_bytes(self.store.read(key), where=key)
        except ObjectNotFound:
            return None

    @property
    def final(self) -> GangState:
        state = self.state
        assert state is not None, self.said()
        return state

    @property
    def history(self) -> LedgerState:
        return self.ledger.state()

    def until(self, look: Callable[[], Value | None], what: str, seconds: float = 20) -> Value:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if seen := look():
                return seen
            assert any(agent.poll() is None for agent in self.agents), f"ended before {what}: {self.said()}"
            time.sleep(0.02)
        raise AssertionError(f"never {what}: {self.said()}")

    def until_step(self, step: int) -> None:
        self.until(lambda: (s := self.state) and s.last_step and s.last_step.step >= step, f"at step {step}")

    def pid_of_rank(self, rank: int) -> int:
        def look() -> int | None:
            state = self.state
            view = next((view for view in state.ranks if view.rank == rank), None) if state else None
            return view.pid if view and view.state == "Running" else None

        return self.until(look, f"rank {rank} running")

    def guard_of(self, node_rank: int) -> int:
        def look() -> int | None:
            for pid in descendants(self.agents[node_rank].pid):
                if b"guard.py" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    return pid
            return None

        return self.until(look, "a guard")

    def processes(self) -> set[int]:
        """Everything that belongs to the gang now."""
        found = set()
        for agent in self.agents:
            found |= {agent.pid, *descendants(agent.pid)}
        return found

    def log(self, node_rank: int = 0, rank: int | None = None, attempt: int = 0) -> list[dict[str, Any]]:
        name = node_stream(node_rank) if rank is None else rank_stream(node_rank=node_rank, rank=rank, attempt=attempt)
        folder = log_folder(self.spec.run, generation=self.spec.generation, stream=name)
        chunks = b"".join(self.store.read(info.key) for info in self.store.list(folder))
        return [json.loads(line) for line in chunks.splitlines()]

    def messages(self, node_rank: int = 0, rank: int | None = None, attempt: int = 0) -> list[str]:
        return [line["message"] for line in self.log(node_rank, rank, attempt)]

    def said(self) -> str:
        out = sorted(self.folder.glob("g*/node-*/agent.out"))
        return "\n".join(f"--- {path}\n{path.read_text(errors='replace')[-3000:]}" for path in out)


def put_data_set(store: ObjectStore) -> None:
    """One sequence, which no program here reads."""
    content = bytes(16)
    store.replace(shard_key("p-0-000000", suffix="bin"), content)
    file = StoredFile(
        path="../../shards/p-0-000000.bin", size_bytes=len(content), sha256=hashlib.sha256(content).hexdigest()
    )
    shard = Shard(index=0, files=(file,), num_sequences=1, num_tokens=1, num_padding=0, num_documents=1)
    manifest = ShardManifest(
        data_version="d-1", plan_id="p-0", options=PackingOptions(sequence_length=8, over_long="split"),
        shards=(shard,), bad_records=(), counts=PackingCounts(),
    )  # fmt: skip
    store.replace(shard_manifest_key("d-1"), manifest.to_bytes())


def checkpoint(every_steps: int, writers: str = "rank0") -> CheckpointRule:
    return CheckpointRule.model_validate(
        {"every_steps": every_steps, "writers": writers, "verify_level": "digests", "retain": RetentionPolicy()}
    )


def worker(steps: int, **options: object) -> list[str]:
    return [sys.executable, "-IS", "-c", WORKER, str(steps), *(f"{key}={value}" for key, value in options.items())]


def python(text: str) -> list[str]:
    return [sys.executable, "-IS", "-c", text]


def all_gone(pids: set[int], seconds: float = 30) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not any(is_alive(pid, None) for pid in pids):
            return True
        time.sleep(0.02)
    return False


Gangs = Iterator[Callable[..., Gang]]
