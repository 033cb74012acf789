"""Files compressed as a whole with gzip, unpacked as they are read. Offsets are those of the unpacked bytes.

They cannot be cut, so one lies in one shard. A stream must come to its end, its checksum included, or it is damaged.
"""

import zlib
from collections.abc import Iterator

from components.dataset.blobs import Changed, Unreadable
from components.dataset.inputs import Input
from components.dataset.sources.pieces import Piece

EXPANDS = 4
"""How many times its size a file is taken to have, when shards are planned."""
_SUFFIXES = (".gz", ".tgz")
_ENDLESS = 1 << 62
_GZIP = 31
_MADE_BYTES = 1 << 20
"""The most that is unpacked at once, however much it expands."""


def is_packed(path: str) -> bool:
    """Whether an input of lines or a tar is packed, by its name."""
    return path.lower().endswith(_SUFFIXES)


def unpacked(item: Input, pieces: Iterator[Piece]) -> tuple[Input, Iterator[Piece]]:
    """The input as it is read, and its pieces: another one when it is packed, of a size nobody knows yet."""
    if not is_packed(item.path):
        return item, pieces
    return item._replace(size=_ENDLESS, start=0, end=-1), _unpacked(item.path, pieces)


def _unpacked(path: str, pieces: Iterator[Piece]) -> Iterator[Piece]:
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
