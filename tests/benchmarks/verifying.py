"""Verifying each format against SHA-256 of the same bytes on the same core; its memory; two workers against one."""

import hashlib
import multiprocessing
import os
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import numpy
from safetensors.numpy import save_file

from components.integrity.examine import examine_files
from components.integrity.one_pass import Wanted
from components.storage.local import LocalStore
from tests.benchmarks.measure import ROOT, Figure, python
from tests.damage.torch_like import archive, chunk, described, metadata, placed, tensor

NUM_FILES, FILE_BYTES, NUM_PIECES = 4, 64 << 20, 4
ROUNDS = 5
PEAK = """
import sys
from pathlib import Path
from components.integrity.examine import examine_files
from components.integrity.one_pass import Wanted
from components.storage.local import LocalStore
files = [Wanted(path.name, path.stat().st_size, "0" * 64) for path in Path(sys.argv[1]).iterdir()]
store = LocalStore(Path(sys.argv[1]).parent)
found = examine_files(store, Path(sys.argv[1]).name, files, look_inside=True, workers=int(sys.argv[2]))
assert all("SHA-256" in fault.problem for fault in found.faults)
print(open('/proc/self/status').read().split('VmHWM:')[1].split()[0])
"""


def figures(root: Path) -> Iterator[Figure]:
    """Everything below `root`, which is left for the caller to remove."""
    values = numpy.random.default_rng(1).standard_normal(FILE_BYTES // 4, dtype=numpy.float32)
    writers: dict[str, Callable[[Path, numpy.ndarray], None]] = {
        "safetensors": _write_safetensors, "torch": _write_torch, "distributed": _write_distributed,
    }  # fmt: skip
    for kind, write in writers.items():
        folder = root / kind
        folder.mkdir()
        write(folder, values)
        files = _wanted(folder)
        yield Figure(f"verify {kind} / SHA-256 alone, speed", _speed(folder, files), "ratio", 0.7, at_least=True)
        if kind == "torch":
            gain, bare = _gains(folder, files)
            yield Figure("bare SHA-256, two processes / one, speed", bare, "ratio")
            yield Figure("verify, two workers / one, speed", gain, "ratio")
            # On idle cores bare hashing doubles; on busy ones nobody's does, and that is not the verifier's doing.
            yield Figure("verify, two workers / one, where bare hashing doubles", 2 * gain / bare, "ratio", 1.9, True)
        for workers in (1, 2):
            argv = python("-c", PEAK, str(folder), str(workers))
            environment = {**os.environ, "PYTHONPATH": str(ROOT)}
            peak = subprocess.run(argv, env=environment, capture_output=True, text=True, check=True).stdout
            size = sum(file.size_bytes for file in files) >> 20
            yield Figure(f"peak memory, {kind}, {size} MiB, {workers} workers", int(peak) / 1024, "MiB", 150)


def _write_safetensors(folder: Path, values: numpy.ndarray) -> None:
    for number in range(NUM_FILES):
        save_file({"weights": values}, folder / f"model-{number}.safetensors")


def _write_torch(folder: Path, values: numpy.ndarray) -> None:
    data = archive({"weights": tensor("0", [len(values)])}, {"0": values.tobytes()})
    for number in range(NUM_FILES):
        (folder / f"model-{number}.pt").write_bytes(data)


def _write_distributed(folder: Path, values: numpy.ndarray) -> None:
    count = len(values) // NUM_PIECES
    piece = archive({"w": tensor("0", [count])}, {"0": values[:count].tobytes()})
    places, types = [], {}
    for number in range(NUM_FILES):
        name = f"layer.{number}"
        types[name] = described([count * NUM_PIECES], [chunk([count * at], [count]) for at in range(NUM_PIECES)])
        for at in range(NUM_PIECES):
            places.append(placed(name, [count * at], f"__{number}_0.distcp", len(piece) * at, len(piece)))
        (folder / f"__{number}_0.distcp").write_bytes(piece * NUM_PIECES)
    (folder / ".metadata").write_bytes(metadata(types, places))


def _wanted(folder: Path) -> list[Wanted]:
    files = []
    for path in sorted(folder.iterdir()):
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        files.append(Wanted(path.name, path.stat().st_size, digest))
    return files


def _speed(folder: Path, files: list[Wanted]) -> float:
    """Median of the pairs, in CPU time of this one thread, so that other load on the machine counts for neither."""
    ratios = []
    for _ in range(ROUNDS):
        began = time.process_time()
        _hash(folder, files, 1)
        hashing = time.process_time() - began
        began = time.process_time()
        _verify(folder, files, 1)
        ratios.append(hashing / (time.process_time() - began))
    return sorted(ratios)[ROUNDS // 2]


def _gains(folder: Path, files: list[Wanted]) -> tuple[float, float]:
    """(verifying, bare hashing in processes): median of one worker's time over two's, each pair taken turn by turn."""
    ratios: dict[str, list[float]] = {"verify": [], "hash": []}
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        paths = [folder / file.path for file in files]
        list(pool.map(_sha256, paths))  # both are up
        for _ in range(2 * ROUNDS):
            one, two = (_seconds(lambda workers=workers: _verify(folder, files, workers)) for workers in (1, 2))
            ratios["verify"].append(one / two)
            one = _seconds(lambda: [pool.submit(_sha256, path).result() for path in paths])
            two = _seconds(lambda: list(pool.map(_sha256, paths)))
            ratios["hash"].append(one / two)
    return statistics.median(ratios["verify"]), statistics.median(ratios["hash"])


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _hash(folder: Path, files: list[Wanted], workers: int) -> None:
    with ThreadPoolExecutor(workers) as pool:
        found = list(pool.map(lambda file: _sha256(folder / file.path), files))
    assert found == [file.sha256 for file in files]


def _verify(folder: Path, files: list[Wanted], workers: int) -> None:
    found = examine_files(LocalStore(folder.parent), folder.name, files, look_inside=True, workers=workers)
    assert found.faults == ()
