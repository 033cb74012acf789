"""A file being built on local disk: no name that could be left behind, and digests of its blocks."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import xxhash

from components.storage.base import StorageError

BLOCK_BYTES = 4 << 20
"""A damaged file is told apart block by block. Part of `PackedShard.blocks`."""

_FLUSH_BYTES = 1 << 20
_OPEN_FILES = Path("/proc/self/fd")


class Output:
    """Written from start to end, then read by its path, then gone. On Linux it has no name of its own: even kill −9
    leaves nothing.
    """

    def __init__(self, suffix: str) -> None:
        self.suffix = suffix
        self.size_bytes = 0
        self.blocks = list[str]()
        self._block = xxhash.xxh3_64()
        self._left = BLOCK_BYTES
        self._waiting, self._num_waiting = list[bytes | bytearray | memoryview](), 0
        descriptor, name = tempfile.mkstemp(prefix="argosy-shard-")
        self._file = open(descriptor, "wb", buffering=0)  # noqa: SIM115 - closed by close()
        self.path = Path(name)
        if _OPEN_FILES.is_dir():
            os.unlink(name)
            self.path = _OPEN_FILES / str(descriptor)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Append; small pieces are joined first. `data` must not change afterwards. Raises StorageError."""
        self._waiting.append(data)
        self._num_waiting += len(data)
        if self._num_waiting >= _FLUSH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Hand everything to the file. Raises StorageError when the disk refuses."""
        data = self._waiting[0] if len(self._waiting) == 1 else b"".join(self._waiting)
        self._waiting, self._num_waiting = [], 0
        view = memoryview(data).cast("B")
        self._digest(view)
        self.size_bytes += len(view)
        try:
            while len(view):
                view = view[self._file.write(view) :]
        except OSError as error:
            where = tempfile.gettempdir()
            raise StorageError(
                "DiskFull", f"cannot build a shard in {where}: {error.strerror or error}",
                "free space there, set TMPDIR to another disk, or make target_shard_size smaller",
            ) from error  # fmt: skip

    def append(self, other: "Output") -> None:
        """The whole of another output."""
        for data in other.read():
            self.write(data)

    def read(self) -> Iterator[bytes]:
        """What was written so far."""
        self.flush()
        with self.path.open("rb", buffering=0) as file:
            while data := file.read(_FLUSH_BYTES):
                yield data

    def end(self) -> None:
        """No more will be written."""
        self.flush()
        if self._left < BLOCK_BYTES:
            self.blocks.append(self._block.hexdigest())

    def close(self) -> None:
        self._file.close()
        if self.path.parent != _OPEN_FILES:
            self.path.unlink(missing_ok=True)

    def __enter__(self) -> "Output":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _digest(self, view: memoryview) -> None:
        while len(view) >= self._left:
            self._block.update(view[: self._left])
            view = view[self._left :]
            self.blocks.append(self._block.hexdigest())
            self._block, self._left = xxhash.xxh3_64(), BLOCK_BYTES
        self._block.update(view)
        self._left -= len(view)


class Outputs(ExitStack):
    """The files of one shard, closed together."""

    def new(self, suffix: str) -> Output:
        return self.enter_context(Output(suffix))
