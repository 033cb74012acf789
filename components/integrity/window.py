"""Reads a few bytes anywhere in a stored file: directories and headers, before the one pass over everything."""

import os
from collections import OrderedDict
from types import TracebackType
from typing import BinaryIO, Self

from components.storage.base import ObjectStore

_BLOCK_BYTES = 64 << 10
_NUM_BLOCKS = 4


class Window:
    """One stored file, read by position. Blocks are cached, so that neighbouring small reads cost one."""

    def __init__(self, store: ObjectStore, key: str, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self._store, self._key = store, key
        self._stream: BinaryIO | None = None
        self._blocks: OrderedDict[int, bytes] = OrderedDict()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def read(self, begin: int, length: int) -> bytes:
        """The bytes [begin, begin + length), fewer at the end of the file. `length` is the caller's to bound."""
        end = min(begin + length, self.size_bytes)
        if begin < 0 or begin >= end:
            return b""
        first, last = begin // _BLOCK_BYTES, (end - 1) // _BLOCK_BYTES
        if last - first > 1:
            return self._read_at(begin, end - begin)
        data = b"".join(self._block(index) for index in range(first, last + 1))
        return data[begin - first * _BLOCK_BYTES : end - first * _BLOCK_BYTES]

    def _block(self, index: int) -> bytes:
        block = self._blocks.get(index)
        if block is None:
            begin = index * _BLOCK_BYTES
            block = self._read_at(begin, min(_BLOCK_BYTES, self.size_bytes - begin))
            self._blocks[index] = block
            if len(self._blocks) > _NUM_BLOCKS:
                self._blocks.popitem(last=False)
        return block

    def _read_at(self, begin: int, length: int) -> bytes:
        if self._stream is None:
            self._stream = self._store.open(self._key)
        self._stream.seek(begin, os.SEEK_SET)
        parts = []
        while length:
            part = self._stream.read(length)
            if not part:
                break  # the file shrank meanwhile; the pass over it says so
            parts.append(part)
            length -= len(part)
        return b"".join(parts)
