"""Whole tasks of every common source and format, 1–4 KiB a sample: samples a CPU second of one core, and peak memory.

The digests of blocks, SHA-256 and the synced publish are part of it; the plan, the start and the imports are not.
"""

import json
import os
import random
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.benchmarks.measure import ROOT, Figure, python

NUM_SAMPLES, NUM_FILES, NUM_TEXTS = 120_000, 40_000, 4_000
ROUNDS = 2
FORMATS = {"tokens": ("--sequence-length", "2048", "--over-long", "split"), "mds": (), "webdataset": (), "parquet": ()}
_PROGRAM = """
import io, json, re, sys, time
from components.runtime.log import Log
from components.shard.pack import Packer
from components.shard.task import run_task
from components.storage.base import open_store
store, log, began = open_store(sys.argv[1]), Log({}, io.StringIO()), time.process_time()
receipt = run_task(store, plan_id=sys.argv[2], task_index="0", num_tasks=1, log=log)
cpu, samples = time.process_time() - began, sum(shard.num_documents for shard in receipt.shards)
# not ru_maxrss, which begins at what the program that started this one had
peak_mb = int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) * 1024 / 1e6
print(json.dumps({"cpu": cpu, "samples": samples, "bytes": receipt.counts.input_bytes, "peak_mb": peak_mb}))
"""


def figures(folder: Path) -> Iterator[Figure]:
    from tests.benchmarks import parquet_on_s3

    texts = list(_texts())
    yield from parquet_on_s3.figures(folder, texts)
    for source, make in _SOURCES.items():
        corpus = folder / f"pairs-{source}"
        corpus.mkdir()
        make(corpus, texts)
        peak = 0.0
        for format in FORMATS:
            runs = [_run(folder / "pairs-storage", corpus, source, format) for _ in range(ROUNDS)]
            best = min(runs, key=lambda run: run["cpu"])
            name = f"{source} to {format}, {best['bytes'] / 1e6 / best['cpu']:.0f} MB/s"
            bar = None if source == "files" else 90
            yield Figure(name, best["samples"] / best["cpu"] / 1000, "k/s", bar, at_least=True)
            peak = max(peak, *(run["peak_mb"] for run in runs))
        yield Figure(f"peak memory from {source}", peak, "MB", 100)
        if source == "files":
            yield Figure("opening, reading and closing such files, nothing else", _bare(corpus), "k/s")
        subprocess.run(["rm", "-rf", str(corpus)], check=True)


def _run(storage: Path, corpus: Path, source: str, format: str) -> dict[str, float]:
    read_as = {"files": "file" if format == "tokens" else "grouped_files"}.get(source, source)
    found = packed(f"file://{storage}", str(corpus), read_as, format, dict(os.environ))
    subprocess.run(["rm", "-rf", str(storage)], check=True)
    return found


def packed(storage: str, corpus: str, read_as: str, format: str, environment: dict[str, str]) -> dict[str, float]:
    """What one task that packs all of a corpus took: `cpu` in seconds, `samples`, `bytes` and `peak_mb`."""
    environment = environment | {"PYTHONPATH": str(ROOT)}
    flags = ["--storage", storage, "--corpus", corpus, "--read-as", read_as, "--format", format]
    said = subprocess.check_output(
        python("-m", "components.shard", "plan", *flags, *FORMATS[format]), env=environment, text=True,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    plan_id = dict(line.split("=", 1) for line in said.splitlines())["plan_id"]
    told = subprocess.check_output(python("-c", _PROGRAM, storage, plan_id), env=environment, text=True)
    found: dict[str, float] = json.loads(told)
    return found


def _bare(corpus: Path) -> float:
    """What the kernel takes for it, and four calls of Python's."""
    paths = sorted(str(path) for path in corpus.glob("*/*"))
    began = time.process_time()
    for path in paths:
        file = os.open(path, os.O_RDONLY)
        os.pread(file, 1 << 20, 0)
        os.fstat(file)
        os.close(file)
    return len(paths) / (time.process_time() - began) / 1000


def _texts() -> Iterator[str]:
    chance = random.Random(5)
    words = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(2, 11))) for _ in range(5000)]
    for _ in range(NUM_TEXTS):
        made, size = list[str](), chance.randint(1024, 4096)
        while size > 0:
            made.append(chance.choice(words))
            size -= len(made[-1]) + 1
        yield " ".join(made)


def _lines(folder: Path, texts: list[str]) -> None:
    with (folder / "a.txt").open("w") as file:
        file.writelines(f"{texts[number % NUM_TEXTS]}\n" for number in range(NUM_SAMPLES))


def _jsonl(folder: Path, texts: list[str]) -> None:
    with (folder / "a.jsonl").open("w") as file:
        file.writelines(json.dumps({"text": texts[number % NUM_TEXTS]}) + "\n" for number in range(NUM_SAMPLES))


def _files(folder: Path, texts: list[str]) -> None:
    for number in range(NUM_FILES):
        within = folder / f"{number // 1000:03d}"
        within.mkdir(exist_ok=True)
        (within / f"{number % 1000:03d}.txt").write_text(texts[number % NUM_TEXTS])


def write_parquet(folder: Path, texts: list[str]) -> None:
    """Rows of one text each, in a file with three row groups."""
    import pyarrow
    import pyarrow.parquet

    schema = pyarrow.schema([("text", pyarrow.string())])
    with pyarrow.parquet.ParquetWriter(folder / "a.parquet", schema) as writer:
        for first in range(0, NUM_SAMPLES, 40_000):
            rows = [f"{number} {texts[number % NUM_TEXTS]}" for number in range(first, first + 40_000)]
            writer.write_table(pyarrow.table({"text": rows}, schema=schema), row_group_size=40_000)


def _tar(folder: Path, texts: list[str]) -> None:
    import io
    import tarfile

    with tarfile.open(folder / "a.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
        for number in range(NUM_SAMPLES):
            content = texts[number % NUM_TEXTS].encode()
            member = tarfile.TarInfo(f"{number:09d}.txt")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
            tar.members = []  # type: ignore[attr-defined]


_SOURCES: dict[str, Callable[[Path, list[str]], None]] = {
    "tar": _tar, "lines": _lines, "jsonl": _jsonl, "parquet": write_parquet, "files": _files
}  # fmt: skip
