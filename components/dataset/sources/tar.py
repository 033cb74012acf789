"""Samples in tars, as WebDataset means them: files in a row whose names agree up to the first dot are one sample.

Reading walks from header to header and checks each: a flipped bit in one would otherwise hide all that follows.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from components.dataset.batches import Column, Sample, Value
from components.dataset.blobs import READ_BYTES, Blobs, Changed, Unreadable
from components.dataset.formats.ustar import BLOCK, BadHeader, Member, padded, pax_path, read_header
from components.dataset.formats.webdataset import split_member
from components.dataset.inputs import Input
from components.dataset.planning import MAX_RECORD_BYTES
from components.dataset.sources.findings import Findings, damaged
from components.dataset.sources.pieces import Piece, pieces_of, whole

_EXTENDS = (b"x", b"L")
_CARRIES_NOTHING = (b"g", b"K", b"5", b"1", b"2", b"3", b"4", b"6")
_FILE = (b"0", b"7")


class _File(NamedTuple):
    """One member that is a file."""

    name: str
    start: int
    """Where its first header begins."""
    data: bytes | memoryview


def samples(inputs: Sequence[Input], blobs: Blobs, findings: Findings) -> Iterator[tuple[Input, int, Sample]]:
    """Input, offset and content of every sample. Raises BadInput for a tar that is damaged or cut."""
    columns_of = dict[tuple[str, ...], tuple[Column, ...]]()
    for item, pieces in pieces_of(inputs, blobs, whole):
        if not item.start:
            findings.count("num_inputs")
        findings.count("input_bytes", item.stop - item.start)
        base = item.path.rpartition(".")[0]
        try:
            for key, start, fields in _grouped(item, _files(item, _Stream(item, pieces)), findings):
                names = tuple(fields)
                if names not in columns_of:
                    columns_of[names] = tuple(Column(name, "bytes") for name in names)
                yield item, start, Sample(f"{base}/{key}", columns_of[names], list(fields.values()))
        except Changed as changed:
            findings.failed(changed)
        except Unreadable as unreadable:
            raise damaged(blobs.uri_of(item.path), unreadable.reason, unreadable.offset) from unreadable


def cuts(item: Input, blobs: Blobs, *, target: int) -> Iterator[tuple[int, int]]:
    """Ranges of whole samples of about `target` bytes each. Raises Unreadable for a tar that is damaged or cut."""
    begin, last_key = 0, ""
    for name, start, _ in _files(item, _Jumps(item, blobs)):
        key = (split_member(name) or (name, ""))[0]
        if key != last_key and start - begin >= target:
            yield begin, start
            begin = start
        last_key = key
    yield begin, item.size


def _grouped(item: Input, files: Iterator[_File], findings: Findings) -> Iterator[tuple[str, int, dict[str, Value]]]:
    key, begin, fields = "", 0, dict[str, Value]()
    for name, start, data in files:
        found = split_member(name)
        if found is None:
            findings.reject(
                item.path, f"{name!r} is no field of a sample: its name has no dot, or is one for notes", offset=start
            )
            continue
        if found[0] != key and fields:
            yield key, begin, fields
            fields = {}
        if not fields:
            key, begin = found[0], start
        if found[1] in fields:
            findings.reject(item.path, f"{name!r} gives its sample the same field twice", offset=start)
            continue
        fields[found[1]] = data
    if fields:
        yield key, begin, fields


def _files(item: Input, buffer: "_Stream | _Jumps") -> Iterator[_File]:
    """The files in the range, in order, complete. Raises Changed, Unreadable."""
    name: str | None = None
    size: int | None = None
    begin: int | None = None
    while buffer.place < item.stop:
        start = buffer.place
        member = _member(item, buffer, start)
        if member is None:
            return  # the end of the archive; what follows is padding
        begin = start if begin is None else begin
        if member.kind in _EXTENDS:
            data = bytes(buffer.take(padded(member.size))[: member.size])
            if member.kind == b"L":
                name = data.rstrip(b"\0").decode("utf-8", "surrogateescape")
            else:
                path, length = pax_path(data)
                name, size = path or name, length if length is not None else size
            continue
        length = member.size if size is None else size
        if member.kind in _FILE:
            yield _File(name or member.name, begin, buffer.content(padded(length))[:length])
        elif member.kind in _CARRIES_NOTHING:
            buffer.content(padded(length if member.kind in (b"g", b"K") else 0))
        else:
            raise Unreadable(item.path, f"holds a member of unknown kind {member.kind!r}", start)
        name = size = begin = None
    if item.end < 0:
        raise Unreadable(item.path, "ends without the zero blocks that end a tar, so it may be cut", item.size)


def _member(item: Input, buffer: "_Stream | _Jumps", start: int) -> Member | None:
    try:
        member = read_header(bytes(buffer.take(BLOCK)))
    except BadHeader as error:
        raise Unreadable(item.path, f"holds no tar header where one must be: {error}", start) from error
    if member is not None and member.size > MAX_RECORD_BYTES:
        raise Unreadable(item.path, f"{member.name!r} has {member.size} bytes, more than {MAX_RECORD_BYTES}", start)
    return member


class _Stream:
    """The bytes of a range, taken in order."""

    def __init__(self, item: Input, pieces: Iterator[Piece]) -> None:
        self._item, self._pieces = item, pieces
        self._data, self._used = b"", 0
        self.place = item.start

    def take(self, size: int) -> memoryview:
        """The next `size` bytes. Raises Unreadable when the range ends before."""
        if len(self._data) - self._used < size:
            self._fill(size)
        taken = memoryview(self._data)[self._used : self._used + size]
        self._used += size
        self.place += size
        return taken

    content = take

    def _fill(self, size: int) -> None:
        parts, found = [self._data[self._used :]], len(self._data) - self._used
        while found < size:
            piece = next(self._pieces, None)
            if piece is None:
                raise Unreadable(self._item.path, "ends inside a member", self.place + found)
            if isinstance(piece.data, Changed | Unreadable):
                raise piece.data
            parts.append(piece.data)
            found += len(piece.data)
        self._data, self._used = b"".join(parts), 0


class _Jumps:
    """The headers of a tar alone: contents are jumped over."""

    def __init__(self, item: Input, blobs: Blobs) -> None:
        self._item, self._blobs = item, blobs
        self._ahead = 8 * BLOCK if blobs.in_flight == 1 else READ_BYTES // 4
        self._data, self._start = b"", 0
        self.place = 0

    def take(self, size: int) -> memoryview:
        """The next `size` bytes. Raises Unreadable when the tar ends before."""
        at = self.place - self._start
        if not 0 <= at <= len(self._data) - size:
            self._start, at = self.place, 0
            self._data = self._blobs.read(
                self._item, self.place, min(self._item.size, self.place + max(size, self._ahead))
            )
        if len(self._data) < size:
            raise Unreadable(self._item.path, "ends inside a member", self._item.size)
        self.place += size
        return memoryview(self._data)[at : at + size]

    def content(self, size: int) -> memoryview:
        """Jump over `size` bytes."""
        self.place += size
        if self.place > self._item.size:
            raise Unreadable(self._item.path, "ends inside a member", self._item.size)
        return memoryview(b"")
