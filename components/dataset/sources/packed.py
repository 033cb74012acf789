"""Files compressed as a whole, unpacked as they are read: gzip and zstd. Offsets are those of the unpacked bytes.

They cannot be cut, so one lies in one shard. A stream must come to its end, its checksum included if it has one, or it
is damaged.
"""

import zlib
from collections.abc import Iterator
from typing import Any

from components.dataset.blobs import Changed, Unreadable
from components.dataset.inputs import Input
from components.dataset.sources.pieces import Failure, Piece

EXPANDS = 4
"""How many times its size a file is taken to have, when shards are planned."""
UNPACKED = ("gz", "tgz", "zst")
"""Suffixes of what is read."""
_BEGINS = {
    "gz": (b"\x1f\x8b", "gzip"), "tgz": (b"\x1f\x8b", "gzip"), "zst": (b"\x28\xb5\x2f\xfd", "zstd"),
    "bz2": (b"BZh", "bzip2"), "xz": (b"\xfd7zXZ\0", "xz"), "zip": (b"PK\x03\x04", "zip"),
    "tbz2": (b"BZh", "bzip2"), "txz": (b"\xfd7zXZ\0", "xz"), "lz4": (b"\x04\x22\x4d\x18", "lz4"),
    "7z": (b"7z\xbc\xaf\x27\x1c", "7z"),
}  # fmt: skip
PACKED = tuple(_BEGINS)
"""Suffixes of what is compressed."""
LOOKED_AT_BYTES = 6
_ENDLESS = 1 << 62
_GZIP = 31
_MADE_BYTES = 1 << 20
"""The most that is unpacked at once, however much it expands."""
_READ_BYTES = 256 << 10


def is_packed(path: str) -> bool:
    """Whether an input of lines or a tar is packed, by its name, and can be unpacked."""
    return _suffix(path) in UNPACKED


def packed_with(path: str, begins: bytes) -> str:
    """What a file of that name that begins so is packed with; empty if it is not."""
    magic, name = _BEGINS.get(_suffix(path), (b"\0", ""))
    return name if begins.startswith(magic) else ""


def unpacked(item: Input, pieces: Iterator[Piece]) -> tuple[Input, Iterator[Piece]]:
    """The input as it is read, and its pieces: another one when it is packed, of a size nobody knows yet."""
    if not is_packed(item.path):
        return item, pieces
    unpack = _unzstd if _suffix(item.path) == "zst" else _gunzip
    return item._replace(size=_ENDLESS, start=0, end=-1), unpack(item.path, pieces)


def _suffix(path: str) -> str:
    return path.rpartition(".")[2].lower() if "." in path else ""


def _gunzip(path: str, pieces: Iterator[Piece]) -> Iterator[Piece]:
    place, num_streams, stream = 0, 0, None
    for piece in pieces:
        if isinstance(piece.data, Changed | Unreadable):
            yield piece
            return
        data = piece.data
        while data:
            if stream is None:
                data = data.lstrip(b"\0") if num_streams else data  # padding, as tapes have it
                if not data:
                    break
                stream, num_streams = zlib.decompressobj(_GZIP), num_streams + 1
            try:
                made = stream.decompress(data, _MADE_BYTES)
            except zlib.error as error:
                yield Piece(place, Unreadable(path, f"cannot be unpacked: {error}", place))
                return
            yield Piece(place, made)
            place += len(made)
            data, stream = (stream.unused_data, None) if stream.eof else (stream.unconsumed_tail, stream)
    while stream is not None and not stream.eof and (made := stream.decompress(b"", _MADE_BYTES)):
        yield Piece(place, made)
        place += len(made)
    if num_streams == 0 or (stream is not None and not stream.eof):
        yield Piece(place, Unreadable(path, "ends inside its gzip stream, so it is cut", place))


def _unzstd(path: str, pieces: Iterator[Piece]) -> Iterator[Piece]:
    from components.dataset.arrow import pyarrow

    packed, place = _Packed(pieces), 0
    try:
        with pyarrow.CompressedInputStream(pyarrow.PythonFile(packed, mode="r"), "zstd") as stream:
            while made := stream.read(_READ_BYTES):
                yield Piece(place, made)
                place += len(made)
    except (OSError, pyarrow.ArrowException) as error:
        is_cut = packed.failure is None and "Truncated" in str(error)
        why = "ends inside its zstd stream, so it is cut" if is_cut else f"cannot be unpacked: {error}"
        yield Piece(place, packed.failure or Unreadable(path, why, place))
        return
    if packed.failure is not None or not packed.num_bytes:
        yield Piece(place, packed.failure or Unreadable(path, "ends before its zstd stream, so it is cut", place))


class _Packed:
    """Pieces as the file that pyarrow reads; ends where one failed."""

    closed = False

    def __init__(self, pieces: Iterator[Piece]) -> None:
        self._pieces, self._held = pieces, memoryview(b"")
        self.failure: Failure | None = None
        self.num_bytes = 0

    def read(self, size: int = -1) -> bytes:
        """At most `size` bytes."""
        while not self._held and self.failure is None:
            piece = next(self._pieces, None)
            if piece is None:
                return b""
            if isinstance(piece.data, Changed | Unreadable):
                self.failure = piece.data
                return b""
            self._held = memoryview(piece.data)
            self.num_bytes += len(piece.data)
        taken, self._held = bytes(self._held[:size]), self._held[size:]
        return taken

    def close(self) -> Any:
        """Nothing is open."""
        self.closed = True
