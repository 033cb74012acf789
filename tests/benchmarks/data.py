"""Sharding beside webdataset, mosaicml-streaming and raw concatenation, in one run; planning; packing; far sources.

Rates are a CPU second of one core, what making the samples takes subtracted: other load on the machine moves them less.
Ours include the digests of blocks, SHA-256 and the atomic, synced publish; the others none of it but MDS's SHA-256.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy

from components.dataset.packing import best_fit_decreasing
from components.storage.local import LocalStore
from tests.benchmarks import pairs, side_by_side
from tests.benchmarks.measure import ROOT, Figure, cpu_seconds_of_children, python

READERS = ROOT / ".venv-readers" / "bin" / "python"
ROUNDS = 3
NUM_FILES = 1_000_000
TOKENS = ("--sequence-length", "1024", "--over-long", "split")
ANSWER_SECONDS, NUM_FAR = 0.05, 160


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        yield from _packers(folder)
        yield from side_by_side.figures(folder, folder / "tars-small")
        yield from _tokens(folder)
        yield from _far_store(folder)
        yield from _million(folder)
        yield from pairs.figures(folder)
    seconds = min(_cpu_of("-c", "import components.shard.run") - _cpu_of("-c", "pass") for _ in range(ROUNDS))
    yield Figure("import components.shard.run, without torch", seconds, "s CPU", 0.3)
    lengths = numpy.random.default_rng(1).lognormal(6, 1.2, 300_000).astype(int) % 2048 + 1
    began = time.process_time()
    _, num_rows = best_fit_decreasing(lengths.tolist(), capacity=2048)
    rate = len(lengths) / (time.process_time() - began) / 1e6
    yield Figure("best-fit packing of 300 000 documents at 2048", rate, "M/s", 1.0, at_least=True)
    yield Figure("padding it leaves", 100 * (1 - float(lengths.sum()) / (num_rows * 2048)), "%", 0.15)


def _packers(folder: Path) -> Iterator[Figure]:
    small, large = _runs("small", folder), _runs("large", folder)
    for profile, runs in (("1-4 KiB", small), ("100 KiB", large)):
        for case in ("raw", "webdataset", "streaming", "stage-parquet", "stage-webdataset"):
            yield Figure(f"{case}, {profile}", runs[case]["mb"], "MB/s")
    whole, ours, mds = small["stage-webdataset"], small["ours-webdataset"], small["ours-mds"]
    yield Figure("whole task, tar to tar, 1-4 KiB", whole["mb"], "MB/s", 240, at_least=True)
    yield Figure("whole task, tar to tar, 1-4 KiB", whole["samples"] / 1000, "k/s", 90, at_least=True)
    yield Figure("whole task, tar to tar, 100 KiB", large["stage-webdataset"]["mb"], "MB/s", 360, at_least=True)
    yield Figure("ours to tar, 1-4 KiB", ours["mb"], "MB/s", 240, at_least=True)
    yield Figure("ours to tar, 1-4 KiB", ours["samples"] / 1000, "k/s", 90, at_least=True)
    yield Figure("ours to tar, 100 KiB", large["ours-webdataset"]["mb"], "MB/s", 360, at_least=True)
    yield Figure("ours to tar / webdataset, 1-4 KiB", ours["mb"] / small["webdataset"]["mb"], "times", 5, at_least=True)
    yield Figure("ours to mds / MDSWriter, 1-4 KiB", mds["mb"] / small["streaming"]["mb"], "times", 1.5, at_least=True)
    stages = ("stage-webdataset", "stage-mds", "stage-parquet")
    peak = max(run[case]["peak"] for run in (small, large) for case in stages)
    yield Figure("peak memory of a task, tar to tar, mds and parquet", peak, "MB", 100)
    for case in ("webdataset", "streaming"):
        yield Figure(f"peak memory, {case}", small[case]["peak"], "MB")


def _runs(profile: str, folder: Path) -> dict[str, dict[str, float]]:
    """MB and samples a CPU second, and the peak in MB, of every packer: the best of all rounds."""
    _run("tars", profile, folder / f"tars-{profile}")
    cases = (
        "nothing", "raw", "webdataset", "streaming",
        "ours-webdataset", "ours-mds", "stage-webdataset", "stage-mds", "stage-parquet",
    )  # fmt: skip
    rounds = [
        {case: _run(case, profile, folder / f"{profile}-{case}-{turn}") for case in cases} for turn in range(ROUNDS)
    ]
    best = {case: min((found[case] for found in rounds), key=lambda run: float(run["cpu"])) for case in cases}
    figures = {}
    for case, run in best.items():
        seconds = run["cpu"] - (0 if case.startswith("stage") else best["nothing"]["cpu"])
        figures[case] = {
            "mb": run["bytes"] / 1e6 / max(seconds, 1e-9), "samples": run["samples"] / max(seconds, 1e-9),
            "peak": min(found[case]["peak_mb"] for found in rounds),
        }  # fmt: skip
    return figures


def _run(case: str, profile: str, folder: Path) -> dict[str, Any]:
    interpreter = str(READERS) if case == "streaming" else sys.executable
    argv = [interpreter, "-W", "ignore", str(ROOT / "tests" / "benchmarks" / "packers.py"), case, profile, str(folder)]
    done = subprocess.run(argv, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{case}: {done.stderr[-1000:]}")
    if case != "tars":
        subprocess.run(["rm", "-rf", str(folder)], check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _tokens(folder: Path) -> Iterator[Figure]:
    """The default of a run: text files to packed sequences."""
    corpus = folder / "texts"
    corpus.mkdir()
    block = os.urandom(50_000)
    for number in range(4_000):
        (corpus / f"{number:05}").write_bytes(block[number : number + 25_000])
    before = cpu_seconds_of_children()
    _, peak = _measured("all", "--storage", str(folder / "tokens"), "--corpus", str(corpus), *TOKENS)
    yield Figure("100 MB of text in 4000 files: plan, task, merge", 100 / (cpu_seconds_of_children() - before), "MB/s")
    yield Figure("peak memory, text to tokens", peak, "MB", 100)


class FarStore(LocalStore):
    """Answers after 50 ms, as a store in another building does."""

    def open(self, key: str) -> BinaryIO:
        time.sleep(ANSWER_SECONDS)
        return super().open(key)

    def local_path(self, key: str) -> Path | None:
        return None


def _far_store(folder: Path) -> Iterator[Figure]:
    from components.dataset import blobs
    from components.dataset.inputs import Input
    from components.dataset.sources.pieces import pieces_of, whole

    (folder / "far").mkdir()
    for number in range(NUM_FAR):
        (folder / "far" / f"{number:04d}").write_bytes(b"x" * 1000)
    inputs = [Input("file", f"{number:04d}", 1000, "") for number in range(NUM_FAR)]
    seconds = {}
    for in_flight in (1, blobs.REMOTE_IN_FLIGHT):
        far = blobs.StoredObjects(f"file://{folder}/far", open=lambda uri: FarStore(Path("/")))
        far.in_flight = in_flight
        few = inputs if in_flight > 1 else inputs[: NUM_FAR // 8]
        began = time.perf_counter()
        for _, pieces in pieces_of(few, far, whole):
            assert all(len(piece.data) == 1000 for piece in pieces if isinstance(piece.data, bytes))
        seconds[in_flight] = (time.perf_counter() - began) / len(few)
    ratio = seconds[1] / seconds[blobs.REMOTE_IN_FLIGHT]
    yield Figure("small files, 50 ms an answer: ours / one by one", ratio, "times", 20, at_least=True)


def _million(folder: Path) -> Iterator[Figure]:
    """Hard links to a few files: the plan cannot tell, and they are made in seconds."""
    corpus = folder / "million"
    for number in range(1000):
        (corpus / f"{number:03d}").mkdir(parents=True)
        first = corpus / f"{number:03d}" / "000.txt"
        first.write_bytes(b"a little text\n")
        for other in range(1, NUM_FILES // 1000):
            os.link(first, first.with_name(f"{other:03d}.txt"))
    began = time.perf_counter()
    seconds, peak = _measured("plan", "--storage", str(folder / "planned"), "--corpus", str(corpus), *TOKENS)
    yield Figure("planning 1 M files, wall", time.perf_counter() - began, "s")
    yield Figure("planning 1 M files, CPU", seconds, "s", 20)
    yield Figure("planning 1 M files, peak memory", peak, "MB", 400)


def _measured(*arguments: str) -> tuple[float, float]:
    """CPU seconds and peak MB of a command, the start of the interpreter left out."""
    program = (
        "import resource, sys, time; from components.shard.command import main; began = time.process_time()\n"
        "main(sys.argv[1:]); print(time.process_time() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    said = subprocess.check_output(
        python("-c", program, *arguments), env=os.environ | {"PYTHONPATH": str(ROOT)}, text=True,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    seconds, peak = said.splitlines()[-1].split()
    return float(seconds), int(peak) * 1024 / 1e6


def _cpu_of(*arguments: str) -> float:
    before = cpu_seconds_of_children()
    subprocess.run(python(*arguments), env=os.environ | {"PYTHONPATH": str(ROOT)}, check=True)
    return cpu_seconds_of_children() - before
