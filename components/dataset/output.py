"""A file being built on local disk: no name that could be left behind, and digests of its blocks."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

import xxhash

from components.errors import BadInput
from components.storage.base import StorageError

BLOCK_BYTES = 4 << 20
"""A damaged file is told apart block by block. Part of `PackedShard.blocks`."""

MAX_BYTES = (1 << 32) - 1
"""Offsets in MDS and document ends have 32 bits."""
_FLUSH_BYTES = 1 << 20
_OPEN_FILES = Path("/proc/self/fd")


class Output:
    """Written from start to end, then read by its path, then gone. On Linux it has no name of its own: even kill −9
    leaves nothing.
    """

    def __init__(self, suffix: str, spares: "Spares") -> None:
        self.suffix = suffix
        self.size_bytes = 0
        self.blocks = list[str]()
        self._block = xxhash.xxh3_64()
        self._left = BLOCK_BYTES
        self._waiting, self._num_waiting = list[bytes | bytearray | memoryview](), 0
        self._spares, self._is_closed = spares, False
        self._file, self.path = spares.take()

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
        if self.size_bytes > MAX_BYTES:
            raise BadInput(
                "ShardTooLarge", f"a shard is more than {MAX_BYTES} bytes, which formats and uploads cannot hold",
                "make target_shard_size smaller, or unpack or split the compressed inputs, which are not cut",
            )  # fmt: skip
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
        left = self.size_bytes
        with self.path.open("rb", buffering=0) as file:
            while left and (data := file.read(min(left, _FLUSH_BYTES))):
                left -= len(data)
                yield data

    def end(self) -> None:
        """No more will be written."""
        self.flush()
        self._file.truncate(self.size_bytes)
        if self._left < BLOCK_BYTES:
            self.blocks.append(self._block.hexdigest())

    def close(self) -> None:
        """Its content is not needed any more."""
        if not self._is_closed:
            self._is_closed = True
            self._spares.give(self._file, self.path)

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


class Spares(ExitStack):
    """Files that were written and are not needed any more: to overwrite one costs less than half of a new one."""

    def __init__(self) -> None:
        super().__init__()
        self._unused = list[tuple[BinaryIO, Path]]()

    def take(self) -> tuple[BinaryIO, Path]:
        """A file to write from its start, and where it can be read."""
        if self._unused:
            file, path = self._unused.pop()
            file.seek(0)
            return file, path
        if _OPEN_FILES.is_dir():
            # Without a name from the start, where the file system can: no moment at which kill -9 leaves one.
            nameless = self.enter_context(tempfile.TemporaryFile(prefix="argosy-shard-", buffering=0))  # noqa: SIM115
            return nameless, _OPEN_FILES / str(nameless.fileno())
        descriptor, name = tempfile.mkstemp(prefix="argosy-shard-")
        file = self.enter_context(open(descriptor, "wb", buffering=0))  # noqa: SIM115 - it is one
        self.callback(os.unlink, name)
        return file, Path(name)

    def give(self, file: BinaryIO, path: Path) -> None:
        """Take it back."""
        self._unused.append((file, path))


class Outputs(ExitStack):
    """The files of one shard, given back together."""

    def __init__(self, spares: Spares) -> None:
        super().__init__()
        self._spares = spares

    def new(self, suffix: str) -> Output:
        return self.enter_context(Output(suffix, self._spares))
