"""Reading: the cache against the same files directly, many downloads at once against one by one, batches."""

import hashlib
import io
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from components.contracts.dataset import PackingCounts, PackingOptions, Shard, ShardManifest, StoredFile
from components.contracts.layout import shard_key, shard_manifest_key, shards_folder
from components.dataset.cache import CacheSettings, LocalData, open_data
from components.dataset.loader import Loader
from components.dataset.reader import PackedDataset
from components.runtime.log import Log
from components.storage.local import LocalStore
from tests.benchmarks.measure import Figure

LENGTH = 1024
NUM_LARGE, LARGE_BYTES = 8, 32 << 20
NUM_SMALL, SMALL_BYTES = 64, 4 * 2 * LENGTH
ANSWER_SECONDS = 0.05
STEP_SECONDS = 0.02


class FarStore(LocalStore):
    """Answers after 50 ms, as a store in another building does."""

    def open(self, key: str) -> BinaryIO:
        if key.endswith(".bin"):
            time.sleep(ANSWER_SECONDS)
        return super().open(key)


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store = LocalStore(folder / "storage")
        version = _put(store, "large", NUM_LARGE, LARGE_BYTES)
        began = time.perf_counter()
        with _open(store, version, folder / "cache") as data:
            filling = time.perf_counter() - began
            yield from _filling(store, filling)
            yield from _against_direct(store, data)
            yield from _batches(PackedDataset(data.manifest_path))
        yield from _far_store(folder)


def _filling(store: LocalStore, seconds: float) -> Iterator[Figure]:
    began = time.perf_counter()
    for info in store.list(shards_folder()):
        with store.open(info.key) as file:
            hashlib.file_digest(file, "sha256")
    hashing = time.perf_counter() - began
    size = NUM_LARGE * LARGE_BYTES / 1e6
    yield Figure(f"filling the cache with {size:.0f} MB, proven and synced", size / seconds, "MB/s")
    yield Figure("SHA-256 of the same files, one thread", size / hashing, "MB/s")


def _against_direct(store: LocalStore, data: LocalData) -> Iterator[Figure]:
    direct = sorted(path for path in (store.root / shards_folder()).glob("*.bin"))
    cached = sorted(data.manifest_path.parents[3].glob(f"{shards_folder()}/*.bin"))
    assert len(direct) == len(cached) == NUM_LARGE
    # In memory nothing but the processor is at work, so its own clock tells, whatever else runs.
    for what, prepare, clock in (
        ("in memory", lambda paths: None, time.process_time), ("from disk", _forget, time.perf_counter)
    ):  # fmt: skip
        least = {"direct": float("inf"), "cached": float("inf")}
        for number in range(16):
            pair = [("direct", direct), ("cached", cached)]
            for side, paths in (pair, pair[::-1])[number % 2]:
                least[side] = min(least[side], _seconds_to_read(paths, prepare, clock))
        name = f"reading through the cache / directly, {what}"
        yield Figure(name, least["direct"] / least["cached"], "ratio", 0.9, at_least=True)


def _seconds_to_read(paths: list[Path], prepare: Callable[[list[Path]], None], clock: Callable[[], float]) -> float:
    prepare(paths)
    buffer = bytearray(1 << 20)
    began = clock()
    for path in paths:
        with path.open("rb", buffering=0) as file:
            while file.readinto(buffer):
                pass
    return clock() - began


def _forget(paths: list[Path]) -> None:
    """Have the kernel drop what it keeps of these files in memory."""
    for path in paths:
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _batches(data: PackedDataset) -> Iterator[Figure]:
    """One rank, 32 shuffled sequences of 1024 tokens a step."""
    with Loader(data, data.cursor(seed=1), global_batch=32) as loader:
        num_steps, began = 500, time.perf_counter()
        for _ in range(num_steps):
            next(loader)
        seconds = time.perf_counter() - began
    yield Figure("loader, shuffled sequences of 1024 tokens", 32 * num_steps / seconds / 1000, "k/s", 10, at_least=True)
    with Loader(data, data.cursor(seed=2), global_batch=32) as loader:
        next(loader)
        waits = []
        for _ in range(50):
            time.sleep(STEP_SECONDS)
            waits.append(next(loader).wait_seconds)
    yield Figure("data wait of steps that take 20 ms", 1000 * statistics.median(waits), "ms", 1)


def _far_store(folder: Path) -> Iterator[Figure]:
    store = FarStore(folder / "far")
    version = _put(store, "small", NUM_SMALL, SMALL_BYTES)
    seconds = {}
    for name, num_connections in (("one by one", 1), ("at once", 16)):
        began = time.perf_counter()
        _open(store, version, folder / name, num_connections=num_connections).close()
        seconds[name] = time.perf_counter() - began
    name = f"fill of {NUM_SMALL} shards, 50 ms an answer: at once / one by one"
    yield Figure(name, seconds["one by one"] / seconds["at once"], "times", 8, at_least=True)


def _open(store: LocalStore, version: str, cache: Path, **options: int) -> LocalData:
    settings = CacheSettings(cache, copies_mounts=True)
    return open_data(store, version, run="bench", log=Log({}, io.StringIO()), settings=settings, **options)


def _put(store: LocalStore, plan: str, num_shards: int, num_bytes: int) -> str:
    shards = []
    for index in range(num_shards):
        content = os.urandom(num_bytes // 2).replace(b"\x00", b"\x01")
        content = b"".join((content, content))
        key = shard_key(f"{plan}-{index:06d}", suffix="bin")
        store.create(key, content)
        file = StoredFile(
            path=f"../../../{key}", size_bytes=num_bytes, sha256=hashlib.sha256(content).hexdigest()
        )  # fmt: skip
        shards.append(
            Shard(
                index=index, files=(file,), num_sequences=num_bytes // (2 * LENGTH), num_tokens=1, num_padding=0,
                num_documents=1,
            )
        )  # fmt: skip
    manifest = ShardManifest(
        data_version=f"d-{plan}", plan_id=plan, options=PackingOptions(sequence_length=LENGTH, over_long="split"),
        shards=tuple(shards), bad_records=(), counts=PackingCounts(),
    )  # fmt: skip
    store.create(shard_manifest_key(manifest.data_version), manifest.to_bytes())
    return manifest.data_version
