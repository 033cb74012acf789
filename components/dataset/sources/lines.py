"""Records that are lines. A range of a file owns the lines that begin in it.

So a file of any size is cut without reading it: who reads a range starts one byte early, skips to the first new line,
and goes on past the end until its last line is complete.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, compress
from operator import methodcaller
from typing import Any, NamedTuple

from components.dataset.batches import BATCH_SAMPLES, Batch, Column, Run, Value
from components.dataset.blobs import Blobs, Changed, Unreadable
from components.dataset.inputs import Input
from components.dataset.planning import MAX_RECORD_BYTES
from components.dataset.sources.findings import Findings, damaged
from components.dataset.sources.packed import is_packed, unpacked
from components.dataset.sources.pieces import Piece, pieces_of, stretches

LINE_FIELD = "txt"
_ENDS_AS_ON_WINDOWS = methodcaller("endswith", b"\r")
_PIECE_BYTES = 1 << 20
"""What is read at once: its lines and what they are made into lie in memory too, and in the cache if they are few."""


class Lines(NamedTuple):
    """Consecutive lines of an input."""

    item: Input
    places: list[int]
    lines: list[bytes]


def lines(inputs: Sequence[Input], blobs: Blobs, findings: Findings) -> Iterator[Lines]:
    """Offset and content of every line that is not empty, line ends taken off; many at a time."""
    for item, pieces in pieces_of(inputs, blobs, _early):
        if not item.start:
            findings.count("num_inputs")
        findings.count("input_bytes", item.stop - item.start)
        place = item.start
        try:
            for places, some in _split(*unpacked(item, pieces), blobs):
                place = places[-1]
                yield _told(item, places, some)
        except Changed as changed:
            findings.failed(changed)
        except Unreadable as unreadable:
            where = unreadable.offset if is_packed(item.path) else place
            raise damaged(blobs.uri_of(item.path), unreadable.reason, where) from unreadable


def text_runs(inputs: Sequence[Input], blobs: Blobs, findings: Findings) -> Iterator[Run]:
    """A sample a line, its text in the field `txt`."""
    columns = (Column(LINE_FIELD, "text"),)
    for item, places, some in lines(inputs, blobs, findings):
        try:
            b"\n".join(some).decode()
        except UnicodeDecodeError:
            places, some = _decodable(item, places, some, findings)
        if some:
            yield Run(item, places, Batch(place_keys(item, places), columns, [list[Value](some)]))


def _decodable(item: Input, places: list[int], some: list[bytes], findings: Findings) -> tuple[list[int], list[bytes]]:
    kept, found = list[int](), list[bytes]()
    for place, line in zip(places, some, strict=True):
        try:
            line.decode()
        except UnicodeDecodeError as error:
            reject_utf8(findings, item, place, line, error)
            continue
        kept.append(place)
        found.append(line)
    return kept, found


def place_keys(item: Input, places: Iterable[int]) -> list[str]:
    """`place_key` of many records."""
    start = place_key(item, 0)[:-12]
    return [f"{start}{place:012d}" for place in places]


def place_key(item: Input, place: int) -> str:
    """Names a record by where it stands: unique, and the way back to it."""
    folder, slash, name = item.path.rpartition("/")
    return f"{folder}{slash}{name.replace('.', '_')}/{place:012d}"


def key_of(row: dict[str, Any], key_field: str) -> str:
    """The name a row gives itself. Raises ValueError."""
    key = row.get(key_field)
    if isinstance(key, int) and not isinstance(key, bool):
        key = str(key)
    if not isinstance(key, str) or not key:
        raise ValueError(f"its field {key_field!r}, which should name it, is {key!r}")
    return key


def reject_utf8(findings: Findings, item: Input, place: int, line: Value, error: UnicodeDecodeError) -> None:
    """A record that is not UTF-8, with the offset of the byte that is wrong."""
    findings.reject(
        item.path, f"it is not UTF-8: {error.reason} at byte {place + error.start}", offset=place, content=line
    )


def _early(item: Input) -> Iterator[tuple[int, int]]:
    return stretches(max(0, item.start - 1), item.stop, _PIECE_BYTES)


def _split(item: Input, pieces: Iterator[Piece], blobs: Blobs) -> Iterator[tuple[list[int], list[bytes]]]:
    """The lines that begin in [start, stop), with their offsets."""
    held, num_held, place, is_skipping = list[bytes](), 0, max(0, item.start - 1), item.start > 0
    for piece in _and_on(item, pieces, blobs):
        if isinstance(piece.data, Changed | Unreadable):
            raise piece.data
        first, *complete = piece.data.split(b"\n")
        held.append(first)
        num_held += len(first)
        if complete:
            last = complete.pop()
            complete.insert(0, b"".join(held))
            held, num_held = [last], len(last)
            for start in range(0, len(complete), BATCH_SAMPLES):
                some = complete[start : start + BATCH_SAMPLES]
                *places, place = accumulate([len(line) + 1 for line in some], initial=place)
                count = len(places) if places[-1] < item.stop else bisect_left(places, item.stop)
                first_own = int(is_skipping)
                if count > first_own:
                    yield places[first_own:count], some[first_own:count]
                if count < len(places):
                    return
                is_skipping = False
        if piece.start + len(piece.data) >= item.stop and (is_skipping or place >= item.stop):
            return  # no line begins here, or the next one is another range's
        if num_held > MAX_RECORD_BYTES:
            raise Unreadable(item.path, f"a line is longer than {MAX_RECORD_BYTES} bytes", place)
    if num_held and not is_skipping and place < item.stop:
        yield [place], [b"".join(held)]


def _told(item: Input, places: list[int], some: list[bytes]) -> Lines:
    """The lines without what ends them on Windows, and without empty ones."""
    if any(map(_ENDS_AS_ON_WINDOWS, some)):
        some = [line.removesuffix(b"\r") for line in some]
    if not all(some):
        places = list(compress(places, some))
        some = list(filter(None, some))
    return Lines(item, places, some)


def _and_on(item: Input, pieces: Iterator[Piece], blobs: Blobs) -> Iterator[Piece]:
    """The planned pieces, then what follows them, for the end of the last line."""
    yield from pieces
    for place in range(item.stop, item.size, _PIECE_BYTES // 2):
        yield Piece(place, blobs.read(item, place, min(item.size, place + _PIECE_BYTES // 2)))
