"""Records that are lines: plain text, or a JSON object each. A range of a file owns the lines that begin in it.

So a file of any size is cut without reading it: who reads a range starts one byte early, skips to the first new line,
and goes on past the end until its last line is complete.
"""

import codecs
from collections.abc import Iterator, Sequence
from typing import Any

from components.dataset import strict_json
from components.dataset.batches import Column, Sample, Value, encode, row_columns
from components.dataset.blobs import READ_BYTES, Blobs, Changed, Unreadable
from components.dataset.inputs import Input
from components.dataset.planning import MAX_RECORD_BYTES
from components.dataset.sources.findings import Findings, damaged
from components.dataset.sources.packed import is_packed, unpacked
from components.dataset.sources.pieces import Piece, pieces_of

LINE_FIELD = "txt"


def lines(inputs: Sequence[Input], blobs: Blobs, findings: Findings) -> Iterator[tuple[Input, int, bytes]]:
    """Input, offset and content of every line that is not empty, line ends taken off."""
    for item, pieces in pieces_of(inputs, blobs, _early):
        if not item.start:
            findings.count("num_inputs")
        findings.count("input_bytes", item.stop - item.start)
        place = item.start
        try:
            for place, line in _split(*unpacked(item, pieces), blobs):
                line = line.removesuffix(b"\r")
                if line:
                    yield item, place, line
        except Changed as changed:
            findings.failed(changed)
        except Unreadable as unreadable:
            where = unreadable.offset if is_packed(item.path) else place
            raise damaged(blobs.uri_of(item.path), unreadable.reason, where) from unreadable


def text_samples(inputs: Sequence[Input], blobs: Blobs, findings: Findings) -> Iterator[tuple[Input, int, Sample]]:
    """A sample a line, its text in the field `txt`."""
    columns = (Column(LINE_FIELD, "text"),)
    for item, place, line in lines(inputs, blobs, findings):
        try:
            line.decode()
        except UnicodeDecodeError as error:
            reject_utf8(findings, item, place, line, error)
            continue
        yield item, place, Sample(place_key(item, place), columns, (line,))


def json_samples(
    inputs: Sequence[Input], blobs: Blobs, findings: Findings, *, key_field: str | None
) -> Iterator[tuple[Input, int, Sample]]:
    """A sample a JSON object."""
    for item, place, row in rows(inputs, blobs, findings):
        try:
            columns, values = row_columns(row)
            key = place_key(item, place) if key_field is None else key_of(row, key_field)
        except ValueError as error:
            findings.reject(item.path, str(error), offset=place)
            continue
        yield item, place, Sample(key, columns, values)


def json_texts(
    inputs: Sequence[Input], blobs: Blobs, findings: Findings, *, text_field: str
) -> Iterator[tuple[Input, int, Value]]:
    """One field of every JSON object, which must be text."""
    for item, place, row in rows(inputs, blobs, findings):
        text = row.get(text_field)
        if not isinstance(text, str):
            found = (
                f"no field {text_field!r}" if text is None else f"{type(text).__name__}, not text, in {text_field!r}"
            )
            findings.reject(item.path, f"it has {found}", offset=place)
            continue
        try:
            yield item, place, encode(text, "text")
        except UnicodeEncodeError as error:
            findings.reject(item.path, f"its text is not Unicode: {error.reason}", offset=place)


def rows(inputs: Sequence[Input], blobs: Blobs, findings: Findings) -> Iterator[tuple[Input, int, dict[str, Any]]]:
    """The JSON objects of the lines."""
    for item, place, line in lines(inputs, blobs, findings):
        try:
            row = strict_json.loads(str(line.removeprefix(codecs.BOM_UTF8), "utf-8", "surrogatepass"))
        except UnicodeDecodeError as error:
            reject_utf8(findings, item, place, line, error)
            continue
        except (ValueError, RecursionError) as error:
            why = str(error) if isinstance(error, strict_json.KeyTwice) else f"it is not JSON: {error}"
            findings.reject(item.path, why, offset=place, content=line)
            continue
        if isinstance(row, dict):
            yield item, place, row
        else:
            findings.reject(item.path, f"it is no JSON object, but {type(row).__name__}", offset=place, content=line)


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
    start = max(0, item.start - 1)
    yield start, min(item.stop, start + READ_BYTES)
    for place in range(start + READ_BYTES, item.stop, READ_BYTES):
        yield place, min(item.stop, place + READ_BYTES)


def _split(item: Input, pieces: Iterator[Piece], blobs: Blobs) -> Iterator[tuple[int, bytes]]:
    """The lines that begin in [start, stop), with their offsets."""
    held, num_held, place, is_skipping = list[bytes](), 0, max(0, item.start - 1), item.start > 0
    for piece in _and_on(item, pieces, blobs):
        if isinstance(piece.data, Changed | Unreadable):
            raise piece.data
        first, *others = piece.data.split(b"\n")
        held.append(first)
        num_held += len(first)
        if others:
            *complete, last = [b"".join(held), *others]
            held, num_held = [last], len(last)
            for line in complete:
                if place >= item.stop:
                    return
                if not is_skipping:
                    yield place, line
                is_skipping = False
                place += len(line) + 1
        if piece.start + len(piece.data) >= item.stop and (is_skipping or place >= item.stop):
            return  # no line begins here, or the next one is another range's
        if num_held > MAX_RECORD_BYTES:
            raise Unreadable(item.path, f"a line is longer than {MAX_RECORD_BYTES} bytes", place)
    if num_held and not is_skipping and place < item.stop:
        yield place, b"".join(held)


def _and_on(item: Input, pieces: Iterator[Piece], blobs: Blobs) -> Iterator[Piece]:
    """The planned pieces, then what follows them, for the end of the last line."""
    yield from pieces
    for place in range(item.stop, item.size, READ_BYTES // 8):
        yield Piece(place, blobs.read(item, place, min(item.size, place + READ_BYTES // 8)))
