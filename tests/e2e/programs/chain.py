"""A training program that proves by itself that nothing was lost, repeated or run twice. Standard library only.

    chain.py --steps 40 --trace FOLDER [--seconds 0.03] [--helpers]

Every step's state is a digest of the step before, so the loss of a step is known in advance: `expected_loss`. A program
that resumes computes the chain again from the start and compares. A rank holds a lock as long as it lives, and looks at
the locks of the others: two gangs at once are seen. What is wrong is written to `violations` in the trace folder.

Ranks meet at every step like in a collective; one whose peers are gone hangs and ignores SIGTERM, as NCCL would.
With --helpers each rank leaves what programs leave: loader workers, a daemon without its environment, and a process
that is replaced by its own child all the time.
"""

import argparse
import fcntl
import hashlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

TENSOR_BYTES = 1 << 20


def chain(seed: int, step: int) -> str:
    """The state after `step` steps."""
    state = f"seed {seed}"
    for number in range(1, step + 1):
        state = advance(state, number)
    return state


def advance(state: str, step: int) -> str:
    return hashlib.sha256(f"{state} {step}".encode()).hexdigest()


def loss_of(state: str) -> float:
    return int(state[:13], 16) / 2**52


def expected_loss(seed: int, step: int) -> float:
    """The loss that an undisturbed run has at `step`."""
    return loss_of(chain(seed, step))


class Trace:
    """What this rank tells whoever judges the run."""

    def __init__(self, folder: Path, rank: int, world_size: int) -> None:
        self.folder, self.rank = folder, rank
        self.gang = os.environ["ARGOSY_CHECKPOINTS"].replace(f"/node-{os.environ['NODE_RANK']}/", "/")
        self.lock = os.open(folder / f"rank-{rank}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        if not self.take(self.lock, fcntl.LOCK_EX):
            self.violation(f"rank {rank} of another gang still runs: {os.pread(self.lock, 4096, 0)!r}")
        os.ftruncate(self.lock, 0)
        os.pwrite(self.lock, self.gang.encode(), 0)
        for other in range(world_size):
            if other != rank:
                self.look_at(other)

    def look_at(self, other: int) -> None:
        lock = os.open(self.folder / f"rank-{other}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        if not self.take(lock, fcntl.LOCK_SH):
            time.sleep(0.2)  # it may have taken the lock just now, and not have written yet
            holder = os.pread(lock, 4096, 0).decode()
            if not self.take(lock, fcntl.LOCK_SH) and holder != self.gang:
                self.violation(f"rank {other} of {holder} runs beside {self.gang}")
        os.close(lock)

    @staticmethod
    def take(lock: int, how: int) -> bool:
        try:
            fcntl.flock(lock, how | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def violation(self, text: str) -> None:
        self.append("violations", text=text)

    def append(self, name: str, **fields: object) -> None:
        line = json.dumps({"gang": self.gang, "rank": self.rank, "at": time.time(), **fields}) + "\n"
        file = os.open(self.folder / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        os.write(file, line.encode())
        os.close(file)


class Meeting:
    """All ranks arrive before any goes on."""

    def __init__(self, rank: int, world_size: int) -> None:
        address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
        self.is_host, self.peers = rank == 0, list[socket.socket]()
        if rank == 0:
            with socket.create_server(address) as server:
                self.peers = [server.accept()[0] for _ in range(world_size - 1)]
        while rank != 0 and not self.peers:
            try:
                self.peers = [socket.create_connection(address)]
            except OSError:
                time.sleep(0.02)

    def arrive(self) -> None:
        try:
            for peer in self.peers:
                if not self.is_host:
                    peer.sendall(b".")
                if not peer.recv(1):
                    raise ConnectionError
            for peer in self.peers if self.is_host else ():
                peer.sendall(b".")
        except OSError:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            while True:
                time.sleep(3600)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--trace", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=0.03)
    parser.add_argument("--helpers", action="store_true")
    arguments = parser.parse_args()
    rank, world_size, seed = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), int(os.environ["ARGOSY_SEED"])
    checkpoints, every = Path(os.environ["ARGOSY_CHECKPOINTS"]), int(os.environ["ARGOSY_CHECKPOINT_EVERY_STEPS"])
    trace = Trace(arguments.trace, rank, world_size)
    if arguments.helpers:
        leave_helpers(arguments.trace)
    step, state = resumed(trace, seed)
    trace.append("starts", step=step)
    report(total_steps=arguments.steps)
    meeting = Meeting(rank, world_size)
    while step < arguments.steps:
        time.sleep(arguments.seconds)
        meeting.arrive()
        step, state = step + 1, advance(state, step + 1)
        report(step=step, loss=loss_of(state), tokens=64, total_steps=arguments.steps)
        is_stopping = rank == 0 and Path(os.environ["ARGOSY_STOP"]).exists()
        if rank == 0 and (step % every == 0 or is_stopping or step == arguments.steps):
            save(checkpoints / f"step-{step}", step, state)
        if is_stopping:
            break
    trace.append("ends", step=step)
    return 0


def resumed(trace: Trace, seed: int) -> tuple[int, str]:
    folder = os.environ["ARGOSY_RESUME"]
    if not folder:
        return 0, chain(seed, 0)
    found = json.loads(Path(folder, "state.json").read_text())
    if found["state"] != chain(seed, found["step"]):
        trace.violation(f"{folder} says {found}, but step {found['step']} is {chain(seed, found['step'])}")
    return found["step"], found["state"]


def save(folder: Path, step: int, state: str) -> None:
    folder.mkdir()
    header = json.dumps({"weights": {"dtype": "U8", "shape": [TENSOR_BYTES], "data_offsets": [0, TENSOR_BYTES]}})
    tensor = hashlib.shake_128(state.encode()).digest(TENSOR_BYTES)
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header.encode() + tensor)
    (folder / "state.json").write_text(json.dumps({"step": step, "state": state}))
    (folder / "READY").touch()


def report(**fields: object) -> None:
    with open(os.environ["ARGOSY_PROGRESS"], "a") as progress:
        progress.write(json.dumps(fields) + "\n")


_REPLACED = (
    "import os, time\nend = time.time() + 900\n"
    "while time.time() < end:\n    time.sleep(0.05)\n    os.fork() and os._exit(0)"
)
_DAEMON = "import os, signal, time; os.setsid(); os.fork() and os._exit(0); signal.signal(15, 1); time.sleep(900)"


def leave_helpers(trace: Path) -> None:
    """The trace folder on their command lines lets a judge find them whatever they do to their environment."""
    python = [sys.executable, "-S", "-E", "-c"]
    subprocess.Popen(["sh", "-c", "sleep 900; true", str(trace)])
    subprocess.Popen([*python, _DAEMON, str(trace)], env={})
    subprocess.Popen([*python, _REPLACED, str(trace)], start_new_session=True)
    for _ in range(2):
        subprocess.Popen([*python, "import sys; sys.stdin.read()", str(trace)], stdin=subprocess.PIPE)


if __name__ == "__main__":
    sys.exit(main())
