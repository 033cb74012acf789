"""A manifest: JSON lines that each name one record, where it lies, and what else it has.

    {"uri": "s3://bucket/a.jpg", "range": [0, 1000], "key": "cat-1", "fields": {"caption": "a cat"}}

`uri` alone is required: a uri, an absolute path, or a path relative to the manifest. `range` is [start, end) in bytes.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from components.contracts.dataset import BadRecord
from components.dataset import strict_json
from components.dataset.batches import row_columns
from components.dataset.blobs import ManifestBlobs, Unreadable
from components.dataset.inputs import Input
from components.dataset.planning import MAX_RECORD_BYTES, Unit
from components.dataset.prefetch import in_order
from components.errors import BadInput

_KNOWN = {"uri", "range", "key", "fields"}


def rows(lines: Iterable[bytes], blobs: ManifestBlobs, *, name: str) -> Iterator[Unit | BadRecord]:
    """A unit a line, each input looked up once; `name` is the manifest's own."""
    seen, place = set[int](), 0
    places = _numbered(lines)
    looked = in_order(lambda numbered: _row(*numbered, blobs, name), places, in_flight=blobs.in_flight)
    for found in looked:
        if found is None:
            continue
        if isinstance(found, BadRecord):
            yield found
            continue
        place, item = found
        extra = item.extra or {}
        identity = hash(extra.get("key") or (item.path, item.start, item.end))
        if identity in seen:
            what = f"key {extra['key']!r}" if "key" in extra else f"{item.path} [{item.start}, {item.stop})"
            yield BadRecord(path=name, reason=f"{what} is there already", offset=place)
            continue
        seen.add(identity)
        yield Unit(item, item.stop - item.start)


def _numbered(lines: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    place = 0
    for line in lines:
        yield place, line
        place += len(line)


def _row(place: int, line: bytes, blobs: ManifestBlobs, name: str) -> tuple[int, Input] | BadRecord | None:
    if not line.strip():
        return None
    try:
        return place, _input(strict_json.loads(str(line, "utf-8-sig")), blobs)
    except Unreadable as error:
        return BadRecord(path=name, reason=f"{error.path}: {error.reason}", offset=place)
    except BadInput as error:  # a uri that leads to no store; of a store that is not there the whole plan is refused
        return BadRecord(path=name, reason=f"its uri: {error.seen}", offset=place)
    except (ValueError, RecursionError) as error:
        shown = line[:256].decode("utf-8", "backslashreplace").rstrip()
        return BadRecord(path=name, reason=str(error), offset=place, content=shown)


def _input(row: Any, blobs: ManifestBlobs) -> Input:
    if not isinstance(row, dict) or not isinstance(row.get("uri"), str) or not row["uri"]:
        raise ValueError('it is no object with a "uri"')
    if unknown := sorted(row.keys() - _KNOWN):
        raise ValueError(f"it has {unknown[0]!r}, which is none of {', '.join(sorted(_KNOWN))}")
    size, tag = blobs.look(row["uri"])
    start, end = _range(row.get("range"), size)
    extra = dict[str, Any]()
    if "key" in row:
        if not isinstance(row["key"], str) or not row["key"]:
            raise ValueError(f"its key is {row['key']!r}, not text")
        extra["key"] = row["key"]
    if "fields" in row:
        if not isinstance(row["fields"], dict):
            raise ValueError("its fields are no object")
        columns, values = row_columns(row["fields"])
        extra["fields"] = [
            [column.name, column.type, bytes(value).decode()] for column, value in zip(columns, values, strict=True)
        ]
    return Input("row", row["uri"], size, tag, start, end, extra or None)


def _range(given: Any, size: int) -> tuple[int, int]:
    if given is None:
        given = [0, size]
    is_pair = isinstance(given, list) and len(given) == 2 and all(type(edge) is int for edge in given)
    if not is_pair or not 0 <= given[0] <= given[1] <= size:
        raise ValueError(f"its range is {given!r}, not [start, end] within the {size} bytes that are there")
    if given[1] - given[0] > MAX_RECORD_BYTES:
        raise ValueError(f"its {given[1] - given[0]} bytes are more than a record may have, {MAX_RECORD_BYTES}")
    return given[0], given[1] if given != [0, size] else -1
