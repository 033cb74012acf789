"""Sharding against what the machine can do at most: SHA-256 of the same bytes on one core, in the same run."""

import hashlib
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy

from components.dataset.packing import best_fit_decreasing
from tests.benchmarks.measure import ROOT, Figure, cpu_seconds_of_children, python

NUM_FILES, FILE_BYTES = 4_000, 25_000

SPEC = {
    "options": {"format": "tokens", "sequence_length": 1024, "over_long": "split"},
    "max_bad_records": 0, "num_tasks": 1, "target_shard_bytes": 32 << 20,
}  # fmt: skip


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder, "corpus")
        corpus.mkdir()
        block = os.urandom(FILE_BYTES * 2)
        for number in range(NUM_FILES):
            (corpus / f"{number:05}").write_bytes(block[number : number + FILE_BYTES])
        size = NUM_FILES * FILE_BYTES
        before, began = cpu_seconds_of_children(), time.perf_counter()
        _shard(Path(folder), corpus)
        wall, cpu = time.perf_counter() - began, cpu_seconds_of_children() - before
        began = time.perf_counter()
        for _ in range(NUM_FILES):
            hashlib.sha256(block[:FILE_BYTES]).digest()
        hashing = time.perf_counter() - began
    yield Figure(f"shard {size / 1e6:.0f} MB of text in {NUM_FILES} files: read", size / 1e6 / wall, "MB/s")
    yield Figure("plan + task + merge, CPU / SHA-256 of the input", cpu / hashing, "ratio")
    lengths = numpy.random.default_rng(1).lognormal(6, 1.2, 300_000).astype(int) % 2048 + 1
    began = time.perf_counter()
    _, num_rows = best_fit_decreasing(lengths.tolist(), capacity=2048)
    yield Figure("best-fit packing of 300 000 documents", len(lengths) / (time.perf_counter() - began) / 1e6, "M/s")
    yield Figure("padding it leaves", 100 * (1 - float(lengths.sum()) / (num_rows * 2048)), "%", 0.15)


def _shard(folder: Path, corpus: Path) -> None:
    spec = json.dumps({**SPEC, "corpus": str(corpus)})
    env = {**os.environ, "PYTHONPATH": str(ROOT), "ARGOSY_OUT": str(folder / "out")}
    shared = ["--spec", spec, "--storage", f"file://{folder}/storage", "--run", "bench"]
    for part, inputs in (("plan", {}), ("task", {"task_index": "0"}), ("merge", {})):
        plan = folder / "out/plan_id"
        known = {**inputs, **({"plan_id": plan.read_text()} if plan.exists() else {})}
        argv = [text for name, value in known.items() for text in ("--input", f"{name}={value}")]
        subprocess.run(
            python("-m", "components.shard", part, *shared, *argv), env=env, stdout=subprocess.DEVNULL, check=True
        )
