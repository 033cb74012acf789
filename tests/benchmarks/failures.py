"""What failures cost: from a death to quiet, from a death to the next step, and what the guarding processes take."""

import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.measure import Figure
from tests.e2e.harness import LocalRun, wait_until

PROGRAMS = Path(__file__).parent.parent / "e2e" / "programs"
_PAUSE_SECONDS = 0.005


def figures() -> Iterator[Figure]:
    for scene in (_collective, _chain):
        with tempfile.TemporaryDirectory() as folder:
            yield from scene(Path(folder))


def _collective(home: Path) -> Iterator[Figure]:
    """Three gloo ranks; one dies while the others hang in a collective."""
    run = _start(home, num_nodes=3, checkpoint="none", command=[sys.executable, str(PROGRAMS / "collective.py")])
    run.wait_for_step(1)
    ranks = _ranks(run)
    began = _kill(ranks[1])
    _until_gone(ranks)
    yield Figure("a rank's death, its peers hang in gloo: until all are gone", time.monotonic() - began, "s", 2)
    run.command("stop", "--force")
    run.finish()


def _chain(home: Path) -> Iterator[Figure]:
    """Ranks that leave daemons, loader workers and a process that replaces itself all the time."""
    (home / "trace").mkdir()
    program = [sys.executable, "-S", str(PROGRAMS / "chain.py"), "--steps", "5000", "--seconds", "0.05", "--helpers"]
    run = _start(home, num_nodes=2, checkpoint="{every_steps: 10}", command=[*program, "--trace", str(home / "trace")])
    run.wait_for_step(20)
    ranks = _ranks(run)
    began = _kill(ranks[1])
    _until_gone(ranks)
    yield Figure("a rank's death: until its gang is gone", time.monotonic() - began, "s", 2)
    wait_until(lambda: _has_caught_up(run))
    yield Figure("a rank's death: until a new step is reported", time.monotonic() - began, "s")
    for role in ("agent", "guard"):
        peak = max(_peak_mib(pid) for pid in run.processes(role))
        yield Figure(f"{role}, peak resident", peak, "MiB", 80)
    began = _kill(run.processes("engine")[0])
    while run.processes():
        time.sleep(_PAUSE_SECONDS)
    yield Figure("kill -9 of the engine: until nothing is left", time.monotonic() - began, "s", 2)
    run.finish()


def _start(home: Path, *, num_nodes: int, checkpoint: str, command: list[str]) -> LocalRun:
    run = LocalRun(home)
    (home / "corpus").mkdir()
    (home / "corpus" / "0.txt").write_text("the quick brown fox jumps over the lazy dog. " * 60)
    (home / "run.yaml").write_text(f"""
experiment: failures
shard: {{corpus: corpus, sequence_length: 64, over_long: split, num_tasks: 1}}
launch: {{num_nodes: {num_nodes}, nproc_per_node: 1, command: {command!r}, max_restarts: 1}}
checkpoint: {checkpoint}
""")
    run.start("submit", "-c", "run.yaml")
    return run


def _ranks(run: LocalRun) -> list[int]:
    """Process of each rank."""
    ranks = run.gang_states()[-1]["ranks"]
    return [item["pid"] for item in sorted(ranks, key=lambda item: item["rank"])]


def _kill(pid: int) -> float:
    began = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    return began


def _until_gone(pids: list[int]) -> None:
    while any(_runs(pid) for pid in pids):
        time.sleep(_PAUSE_SECONDS)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return False


def _has_caught_up(run: LocalRun) -> bool:
    """Whether the ranks have made a step that they had not made before they were started again."""
    attempts = run.gang_states()[-1]["attempts"]
    first, last = attempts[0], attempts[-1]
    return bool(last["attempt"] > first["attempt"] and last.get("last_step", 0) > first["last_step"])


def _peak_mib(pid: int) -> float:
    found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) / 1024 if found else 0.0
