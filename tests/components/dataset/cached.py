"""A data set in a store, a store that takes its time, and a process that brings the one to its node.

python -m tests.components.dataset.cached STORAGE CACHE VERSION [pause=<s>] [seen=<file>] [size=<bytes>] [last_byte=<n>]
"""

import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

from components.contracts.dataset import PackingCounts, PackingOptions, Shard, ShardManifest, StoredFile
from components.contracts.layout import shard_key, shard_manifest_key
from components.dataset.cache import CacheSettings, LocalData, open_data
from components.runtime.log import Log
from components.storage.base import ObjectStore
from components.storage.local import LocalStore

LENGTH = 8
SEQUENCE_BYTES = 2 * LENGTH
VERSION = "d-0000000000000001"


def put(
    store: ObjectStore, contents: Sequence[bytes], *, version: str = VERSION, plan: str = "p-1"
) -> list[str]:  # fmt: skip
    """Shards with these contents and their manifest; the SHA-256 of each."""
    shards, digests = [], []
    for index, content in enumerate(contents):
        digests.append(hashlib.sha256(content).hexdigest())
        store.create(shard_key(f"{plan}-{index:06d}", suffix="bin"), content)
        path = f"../../shards/{plan}-{index:06d}.bin"
        file = StoredFile(path=path, size_bytes=len(content), sha256=digests[-1])
        shards.append(
            Shard(
                index=index, files=(file,), num_sequences=len(content) // SEQUENCE_BYTES, num_tokens=1, num_padding=0,
                num_documents=1,
            )
        )  # fmt: skip
    manifest = ShardManifest(
        data_version=version, plan_id=plan, options=PackingOptions(sequence_length=LENGTH, over_long="split"),
        shards=tuple(shards), bad_records=(), counts=PackingCounts(),
    )  # fmt: skip
    store.create(shard_manifest_key(version), manifest.to_bytes())
    return digests


def contents(num_shards: int, num_bytes: int = 4 * SEQUENCE_BYTES) -> list[bytes]:
    """Shards of other tokens each."""
    return [bytes([number, 0]) * (num_bytes // 2) for number in range(num_shards)]


class SlowStore(LocalStore):
    """A folder that hands out shards after `pause` seconds, then in pieces with pauses, and notes which."""

    def __init__(self, root: Path, *, pause: float = 0.0, seen: Path | None = None) -> None:
        super().__init__(root)
        self.pause, self.seen = pause, seen
        self.bytes_left: int | None = None
        """After so many bytes more its process dies by SIGKILL."""
        self.opened: list[str] = []

    def open(self, key: str) -> BinaryIO:
        if "/shards/" not in key:
            return super().open(key)
        self.opened.append(key)
        if self.seen is not None:
            with self.seen.open("a") as file:
                file.write(key + "\n")
        time.sleep(self.pause)
        with super().open(key) as shard:
            return _InPieces(shard.read(), self)


class _InPieces(io.BytesIO):
    def __init__(self, data: bytes, store: SlowStore) -> None:
        super().__init__(data)
        self._store = store

    def read(self, size: int | None = -1, /) -> bytes:
        time.sleep(self._store.pause)
        data = super().read(max(1, len(self.getbuffer()) // 4) if size and size > 0 else size)
        if self._store.bytes_left is not None:
            self._store.bytes_left -= len(data)
            if self._store.bytes_left <= 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return data


def bring(
    store: ObjectStore, cache: Path, *, version: str = VERSION, max_bytes: int | None = None, run: str = "toy",
    log: Log | None = None, **options: Any,
) -> LocalData:  # fmt: skip
    """Through the cache, whatever the store."""
    settings = CacheSettings(cache, max_bytes, copies_mounts=True)
    return open_data(store, version, run=run, log=log or Log({}, io.StringIO()), settings=settings, **options)


def start(storage: Path, cache: Path, *, version: str = VERSION, **options: object) -> "subprocess.Popen[str]":
    """The same in a process of its own, which says `ready <path of the manifest>` and waits for its stdin to end."""
    argv = [sys.executable, "-m", "tests.components.dataset.cached", str(storage), str(cache), version]
    return subprocess.Popen(
        [*argv, *(f"{name}={value}" for name, value in options.items())],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}, text=True, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )  # fmt: skip


def whole(cache: Path) -> dict[str, bytes]:
    """What the cache holds, by digest; every blob must have the one it is named for."""
    found = {path.name: path.read_bytes() for path in cache.glob("blobs/*/*")}
    assert all(hashlib.sha256(content).hexdigest() == name for name, content in found.items())
    return found


def main(storage: str, cache: str, version: str, *options: str) -> None:
    chosen = dict(option.split("=", 1) for option in options)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    seen = Path(chosen["seen"]) if "seen" in chosen else None
    store = SlowStore(Path(storage), pause=float(chosen.get("pause", 0)), seen=seen)
    store.bytes_left = int(chosen["last_byte"]) if "last_byte" in chosen else None
    size = int(chosen["size"]) if "size" in chosen else None
    with bring(store, Path(cache), version=version, max_bytes=size, run=chosen.get("run", "other")) as data:
        manifest = json.loads(data.manifest_path.read_bytes())
        for shard in manifest["shards"]:
            file = shard["files"][0]
            content = (data.manifest_path.parent / file["path"]).read_bytes()
            assert hashlib.sha256(content).hexdigest() == file["sha256"]
        print(f"ready {data.manifest_path}", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
