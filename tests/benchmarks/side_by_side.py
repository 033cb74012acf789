"""Two tasks side by side against one that does it all, and what the machine gives two programs that do as much.

A task computes and writes past the page cache by turns. How much two of them can gain depends on the cores and on the
disk at that moment, so programs that only do that stand beside: as much hashing and as many bytes a second of it.
"""

import os
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.benchmarks.measure import ROOT, Figure, python

ROUNDS = 5
COPIES = 3
"""How many times the tars are packed: a task's start is to be a small part of it."""
_BYTES = 768 << 20
_HASHES = 4
"""SHA-256 over all bytes that takes as long as packing them, about."""
_PROGRAM = """
import hashlib, mmap, os, sys
path, size, hashes, writes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "writes"
buffer = mmap.mmap(-1, 2 << 20)
buffer.write(os.urandom(2 << 20))
file = os.open(path, os.O_CREAT | os.O_WRONLY | (getattr(os, "O_DIRECT", 0) if writes else 0))
for number in range(size >> 21):
    for _ in range(hashes):
        hashlib.sha256(buffer)
    if writes:
        os.write(file, buffer)
        if number % 32 == 31:
            os.fsync(file)
os.fsync(file)
os.unlink(path)
"""


def figures(folder: Path, tars: Path) -> Iterator[Figure]:
    """`tars` is a folder of them."""
    corpus = folder / "tars-many"
    corpus.mkdir()
    for tar in sorted(tars.iterdir()):
        for copy in range(COPIES):
            os.link(tar, corpus / f"{copy}-{tar.name}")
    gains: dict[str, list[float]] = {}
    for number in range(ROUNDS):
        for name, run in _SIDES.items():
            seconds = {count: run(folder / f"side-{number}-{count}", corpus, count) for count in (1, 2)}
            gains.setdefault(name, []).append(seconds[1] / seconds[2])
    gain = {name: statistics.median(found) for name, found in gains.items()}
    yield Figure("two tasks / one, wall time", gain["tasks"], "times")
    yield Figure("two programs that only compute / one", gain["compute"], "times")
    yield Figure("two programs that only write / one", gain["write"], "times")
    yield Figure("two programs that compute and write as much / one", gain["both"], "times")
    ratio = statistics.median(2 * ours / bare for ours, bare in zip(gains["tasks"], gains["both"], strict=True))
    yield Figure("two tasks / one, where such programs double", ratio, "times", 1.8, at_least=True)
    start = statistics.median(_together([_START]) for _ in range(ROUNDS))
    yield Figure("of a task's wall time: start and imports", start, "s")


def _tasks(storage: Path, corpus: Path, count: int) -> float:
    """Wall time of the tasks, the plan apart."""
    flags = ["--storage", str(storage)]
    plan = subprocess.check_output(
        python("-m", "components.shard", "plan", *flags, "--corpus", str(corpus), "--format", "webdataset",
               "--target-shard-size", "8MiB"),
        env=_ENVIRONMENT, text=True, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    plan_id = dict(line.split("=", 1) for line in plan.splitlines())["plan_id"]
    each = ["--plan", plan_id, "--tasks", str(count)]
    seconds = _together(
        [python("-m", "components.shard", "task", *flags, *each, "--index", str(index)) for index in range(count)]
    )
    shutil.rmtree(storage)
    return seconds


def _programs(hashes: int, what: str) -> Callable[[Path, Path, int], float]:
    def run(path: Path, corpus: Path, count: int) -> float:
        return _together(
            [
                python("-c", _PROGRAM, f"{path}-{index}", str(_BYTES // count), str(hashes), what)
                for index in range(count)
            ]
        )

    return run


def _together(commands: list[list[str]]) -> float:
    began = time.perf_counter()
    running = [
        subprocess.Popen(command, env=_ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for command in commands
    ]
    if sum(process.wait() for process in running):
        raise SystemExit("a program that runs beside another failed")
    return time.perf_counter() - began


_ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT)}
_START = python("-c", "import components.shard.command, components.shard.pack")
_SIDES: dict[str, Callable[[Path, Path, int], float]] = {
    "tasks": _tasks, "both": _programs(_HASHES, "writes"),
    "compute": _programs(_HASHES, "writes not"), "write": _programs(0, "writes"),
}  # fmt: skip
