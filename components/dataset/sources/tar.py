"""Samples in tars, as WebDataset means them: files in a row whose names agree up to the first dot are one sample.

Reading walks from header to header and checks each: a flipped bit in one would otherwise hide all that follows.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from components.dataset.batches import Column, Run
from components.dataset.blobs import READ_BYTES, Blobs, Changed, Unreadable
from components.dataset.formats.ustar import BLOCK, BadHeader, Member, byte_sums, padded, pax_path, read_header
from components.dataset.formats.webdataset import split_member
from components.dataset.inputs import Input
from components.dataset.planning import MAX_RECORD_BYTES
from components.dataset.sources.findings import Findings, damaged
from components.dataset.sources.packed import is_packed, unpacked
from components.dataset.sources.pieces import Piece, pieces_of, stretches
from components.dataset.sources.tar_samples import File, last_sample, runs_from

_EXTENDS = (b"x", b"L")
_CARRIES_NOTHING = (b"g", b"K", b"5", b"1", b"2", b"3", b"4", b"6")
_LINK, _SIZELESS = (b"1", b"2"), b"123456"
_FILE = (b"0", b"7", b"\0")
_PIECE_BYTES = 1 << 20
"""What is read at once: samples lie in memory until their batch is full, and keep the whole of it."""
_NO_END = "ends without the zero blocks that end a tar, so it may be cut"


def runs(inputs: Sequence[Input], blobs: Blobs, findings: Findings) -> Iterator[Run]:
    """The samples, as many at a time as are read at once. Raises BadInput for a tar that is damaged or cut."""
    columns_of = dict[tuple[str, ...], tuple[Column, ...]]()
    for item, pieces in pieces_of(inputs, blobs, _pieces):
        if not item.start:
            findings.count("num_inputs")
        findings.count("input_bytes", item.stop - item.start)
        try:
            held = list[File]()
            for some in _streamed(*unpacked(item, pieces), findings):
                files = held + some
                last = last_sample(files)
                yield from runs_from(item, files[:last], findings, columns_of)
                held = files[last:]
            yield from runs_from(item, held, findings, columns_of)
        except Changed as changed:
            findings.failed(changed)
        except Unreadable as unreadable:
            raise damaged(blobs.uri_of(item.path), unreadable.reason, unreadable.offset) from unreadable


def _pieces(item: Input) -> Iterator[tuple[int, int]]:
    return stretches(item.start, item.stop, _PIECE_BYTES)


def cuts(item: Input, blobs: Blobs, *, target: int) -> Iterator[tuple[int, int]]:
    """Ranges of whole samples of about `target` bytes each. Raises Unreadable for a tar that is damaged or cut."""
    begin, last_key = 0, ""
    for name, start in _jumped(item, blobs):
        key = (split_member(name) or (name, ""))[0]
        if key != last_key and start - begin >= target:
            yield begin, start
            begin = start
        last_key = key
    yield begin, item.size


def _streamed(item: Input, pieces: Iterator[Piece], findings: Findings) -> Iterator[list[File]]:
    """The files in the range, in order, complete; headers are read and checked many at a time. Raises Changed,
    Unreadable.
    """
    place, held, wanted = item.start, list[bytes](), 0
    long_name: str | None = None
    begin: int | None = None
    for piece in pieces:
        if isinstance(piece.data, Changed | Unreadable):
            raise piece.data
        held.append(piece.data)
        wanted -= len(piece.data)
        if wanted > 0:
            continue
        data = b"".join(held)
        members, used, wanted, is_end = _complete(item, data, place)
        view, files = memoryview(data), list[File]()
        if long_name is None and begin is None and all(kind in _FILE for _, _, _, kind in members):
            files = [(name, place + at, view[at + BLOCK : at + BLOCK + size]) for name, at, size, _ in members]
            members = []
        for name, at, size, kind in members:
            start = place + at
            begin = start if begin is None else begin
            content = view[at + BLOCK : at + BLOCK + size]
            if kind in _EXTENDS:
                long_name = _long_name(item, bytes(content), kind, start, long_name)
                continue
            if kind in _FILE:
                files.append((name if long_name is None else long_name, begin, content))
            elif kind in _LINK and split_member(name):
                findings.reject(item.path, f"{name!r} is a link, which brings no content of its own", offset=begin)
            elif kind not in _CARRIES_NOTHING:
                raise Unreadable(item.path, f"holds a member of unknown kind {kind!r}", start)
            long_name = begin = None
        yield files
        if is_end:
            _refuse_failures(pieces if is_packed(item.path) else ())
            return
        place += used
        held = [data[used:]]
    if held and held[0]:
        raise Unreadable(item.path, "ends inside a member", place + sum(map(len, held)))
    if item.end < 0:
        raise Unreadable(item.path, _NO_END, place)


def _refuse_failures(pieces: Iterable[Piece]) -> None:
    """What follows the end of a packed tar holds its checksum."""
    for piece in pieces:
        if isinstance(piece.data, Changed | Unreadable):
            raise piece.data


def _complete(item: Input, data: bytes, place: int) -> tuple[list[tuple[str, int, int, bytes]], int, int, bool]:
    """The members that `data` holds whole: (name, place of the header, size, kind); how many bytes they take, how many
    more the next one needs, and whether the archive ends there.
    """
    at, length, places, sizes, is_end, wanted = 0, len(data), list[int](), list[int](), False, BLOCK
    while at + BLOCK <= length:
        try:
            size = int(data[at + 124 : at + 135], 8)
        except ValueError:
            member = _checked(item, data[at : at + BLOCK], place + at)
            if member is None:
                is_end = True
                break
            size = member.size
        if data[at + 156] in _SIZELESS:
            size = 0
        if size > MAX_RECORD_BYTES:
            _checked(item, data[at : at + BLOCK], place + at)  # damaged, rather?
            raise Unreadable(item.path, f"holds a file of {size} bytes, more than {MAX_RECORD_BYTES}", place + at)
        end = at + BLOCK + (size + BLOCK - 1 & -BLOCK)  # padded(size), without the call
        if end > length:
            wanted = end - at
            break
        places.append(at)
        sizes.append(size)
        at = end
    names = _names(item, data, places, place)
    kinds = [data[start + 156 : start + 157] for start in places]
    return list(zip(names, places, sizes, kinds, strict=True)), at, max(1, wanted - (length - at)), is_end


def _names(item: Input, data: bytes, places: list[int], place: int) -> list[str]:
    """The names in the headers at `places`, all their checksums proven."""
    if not places:
        return []
    blocks = np.lib.stride_tricks.sliding_window_view(np.frombuffer(data, dtype=np.uint8), BLOCK)[places]
    blocks = np.ascontiguousarray(blocks)
    sums = byte_sums(blocks) - blocks[:, 148:156].sum(axis=1, dtype=np.int64) + 8 * ord(" ")
    said = ((blocks[:, 148:154].astype(np.int64) - ord("0")) << np.arange(15, -1, -3)).sum(axis=1)
    is_plain = (said == sums) & (blocks[:, 345] == 0)
    packed = np.ascontiguousarray(blocks[:, :100]).tobytes().decode("utf-8", "surrogateescape")
    if len(packed) == 100 * len(places) and is_plain.all():
        return [packed[start : start + 100].partition("\0")[0] for start in range(0, len(packed), 100)]
    members = [_checked(item, data[start : start + BLOCK], place + start) for start in places]
    return [member.name for member in members if member is not None]


def _long_name(item: Input, data: bytes, kind: bytes, start: int, before: str | None) -> str | None:
    """The name that this member gives the next one."""
    if kind == b"L":
        return data.rstrip(b"\0").decode("utf-8", "surrogateescape")
    try:
        path, size = pax_path(data)
    except ValueError as error:
        raise Unreadable(item.path, f"holds no pax records where they must be: {error}", start) from error
    if size is not None:
        raise Unreadable(item.path, f"holds a file of {size} bytes, more than {MAX_RECORD_BYTES}", start)
    return path if path is not None else before


def _checked(item: Input, block: bytes, start: int) -> Member | None:
    try:
        return read_header(block)
    except BadHeader as error:
        raise Unreadable(item.path, f"holds no tar header where one must be: {error}", start) from error


def _jumped(item: Input, blobs: Blobs) -> Iterator[tuple[str, int]]:
    """Name and place of every file: headers alone are read. Raises Changed, Unreadable."""
    buffer = _Jumps(item, blobs)
    long_name: str | None = None
    begin: int | None = None
    while buffer.place < item.size:
        start = buffer.place
        member = _checked(item, bytes(buffer.take(BLOCK)), start)
        if member is None:
            return
        begin = start if begin is None else begin
        if member.kind in _EXTENDS:
            data = bytes(buffer.take(padded(member.size))[: member.size])
            long_name = _long_name(item, data, member.kind, start, long_name)
            continue
        buffer.skip(0 if member.kind[0] in _SIZELESS else padded(member.size))
        if member.kind in _FILE:
            yield (member.name if long_name is None else long_name), begin
        long_name = begin = None
    raise Unreadable(item.path, _NO_END, item.size)


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

    def skip(self, size: int) -> None:
        """Jump over `size` bytes."""
        self.place += size
        if self.place > self._item.size:
            raise Unreadable(self._item.path, "ends inside a member", self._item.size)
