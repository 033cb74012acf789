"""Two tasks side by side against one that does it all, and what the machine gives two programs that do as much.

A task computes and writes by turns. How much two of them can gain depends on the cores and, on disk, on how it takes
two writers at that moment; so programs that only do that stand beside, and everything is done in memory as well.
Timed is the packing: all programs of a side are loaded first, and begin together.
"""

import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from tests.benchmarks.measure import ROOT, Figure, python

ROUNDS = 5
COPIES = 3
"""How many times the tars are packed: nearly 1 GB."""
MEMORY, MEMORY_BYTES = Path("/dev/shm"), 3 << 30
"""A file system in memory, and what must be free there: a third of it is used."""
_BYTES = 768 << 20
_HASHES = 4
"""SHA-256 over all bytes that takes as long as packing them, about."""
_TASK = """
import sys, time
from components.runtime.log import Log
from components.shard import pack
from components.shard.task import run_task
from components.storage.base import open_store
storage, plan_id, index, count = sys.argv[1:]
print("ready", flush=True)
sys.stdin.readline()
began = time.process_time()
run_task(open_store(storage), plan_id=plan_id, task_index=index, num_tasks=int(count), log=Log({}, sys.stderr))
print(time.process_time() - began)
"""
_PROGRAM = """
import hashlib, mmap, os, sys, time
path, size, hashes, how = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
buffer = mmap.mmap(-1, 2 << 20)
buffer.write(os.urandom(2 << 20))
file = os.open(path, os.O_CREAT | os.O_WRONLY | (getattr(os, "O_DIRECT", 0) if how == "to disk" else 0))
print("ready", flush=True)
sys.stdin.readline()
began = time.process_time()
for number in range(size >> 21):
    for _ in range(hashes):
        hashlib.sha256(buffer)
    if how != "not":
        os.write(file, buffer)
        if number % 32 == 31:
            os.fsync(file)
os.fsync(file)
os.unlink(path)
print(time.process_time() - began)
"""
_ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT)}


class Seconds(NamedTuple):
    """What programs that ran together took."""

    wall: float
    cpu: float


Side = Callable[[Path, int], Seconds]
"""Has so many programs do the work in a folder."""


def figures(folder: Path, tars: Path) -> Iterator[Figure]:
    """`tars` is a folder of them."""
    corpus = folder / "tars-many"
    corpus.mkdir()
    for tar in sorted(tars.iterdir()):
        for copy in range(COPIES):
            os.link(tar, corpus / f"{copy}-{tar.name}")
    yield from _beside("on disk", folder, _sides(corpus, "to disk") | {"write": _programs(0, "to disk")})
    if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= MEMORY_BYTES:
        with tempfile.TemporaryDirectory(prefix="argosy-bench-", dir=MEMORY) as name:
            yield from _beside("in memory", Path(name), _sides(corpus, "to memory"))
    start = statistics.median(_started([_task("", "", 0, 1)], _ENVIRONMENT) for _ in range(ROUNDS))
    yield Figure("before a task packs: start and imports", start, "s")


def _sides(corpus: Path, how: str) -> dict[str, Side]:
    return {"tasks": _tasks(corpus), "both": _programs(_HASHES, how), "compute": _programs(_HASHES, "not")}


def _beside(where: str, folder: Path, sides: dict[str, Side]) -> Iterator[Figure]:
    gains: dict[str, list[float]] = {name: [] for name in sides}
    more = list[float]()
    for number in range(ROUNDS):
        for name, run in sides.items():
            one, two = (run(folder / f"side-{number}-{count}", count) for count in (1, 2))
            gains[name].append(one.wall / two.wall)
            if name == "tasks":
                more.append(two.cpu / one.cpu)
    yield Figure(f"two tasks / one, packing {where}", statistics.median(gains["tasks"]), "times")
    for name, what in (("compute", "only compute"), ("write", "only write"), ("both", "compute and write as much")):
        if name in gains:
            yield Figure(f"two programs that {what} / one, {where}", statistics.median(gains[name]), "times")
    yield Figure(f"CPU time of two tasks together / of one, {where}", statistics.median(more), "times")
    ratio = statistics.median(2 * ours / bare for ours, bare in zip(gains["tasks"], gains["both"], strict=True))
    yield Figure(f"two tasks / one, {where}, where such programs double", ratio, "times", 1.8, at_least=True)


def _tasks(corpus: Path) -> Side:
    def run(folder: Path, count: int) -> Seconds:
        folder.mkdir()
        environment = _ENVIRONMENT | {"TMPDIR": str(folder)}
        storage = f"file://{folder}/storage"
        plan = subprocess.check_output(
            python("-m", "components.shard", "plan", "--storage", storage, "--corpus", str(corpus), "--format",
                   "webdataset", "--target-shard-size", "16MiB"),
            env=environment, text=True, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        plan_id = dict(line.split("=", 1) for line in plan.splitlines())["plan_id"]
        seconds = _together([_task(storage, plan_id, index, count) for index in range(count)], environment)
        shutil.rmtree(folder)
        return seconds

    return run


def _task(storage: str, plan_id: str, index: int, count: int) -> list[str]:
    return python("-c", _TASK, storage, plan_id, str(index), str(count))


def _programs(hashes: int, how: str) -> Side:
    def run(path: Path, count: int) -> Seconds:
        size = str(_BYTES // count)
        return _together(
            [python("-c", _PROGRAM, f"{path}-{index}", size, str(hashes), how) for index in range(count)], _ENVIRONMENT
        )

    return run


def _together(commands: list[list[str]], environment: dict[str, str]) -> Seconds:
    """From when all are ready to when all are done."""
    running = [_start(command, environment) for command in commands]
    for process in running:
        _await_ready(process)
    began = time.perf_counter()
    for process in running:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    if sum(process.wait() for process in running):
        raise SystemExit("a program that runs beside another failed")
    wall = time.perf_counter() - began
    return Seconds(wall, sum(float(process.stdout.read()) for process in running if process.stdout is not None))


def _started(commands: list[list[str]], environment: dict[str, str]) -> float:
    """Seconds until all are ready; they do nothing more."""
    began = time.perf_counter()
    running = [_start(command, environment) for command in commands]
    for process in running:
        _await_ready(process)
    seconds = time.perf_counter() - began
    for process in running:
        process.kill()
        process.wait()
    return seconds


def _start(command: list[str], environment: dict[str, str]) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )


def _await_ready(process: "subprocess.Popen[str]") -> None:
    assert process.stdout is not None
    if process.stdout.readline() != "ready\n":
        raise SystemExit("a program that runs beside another does not start")
