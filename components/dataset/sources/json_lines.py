"""Records that are lines of a JSON object each.

Objects of one shape that follow each other become columns together: a call a column, not a call a value.
"""

import codecs
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from components.dataset import strict_json
from components.dataset.batches import (
    Batch,
    Column,
    Run,
    Sample,
    Value,
    encode_all,
    row_columns,
    runs_of,
    type_of_value,
)
from components.dataset.blobs import Blobs
from components.dataset.inputs import Input
from components.dataset.sources.findings import Findings
from components.dataset.sources.lines import Lines, key_of, lines, place_key, place_keys, reject_utf8

Row = dict[str, Any]


class Rows(NamedTuple):
    """Objects of consecutive lines of an input."""

    item: Input
    places: list[int]
    rows: list[Row]


def runs(inputs: Sequence[Input], blobs: Blobs, findings: Findings, *, key_field: str | None) -> Iterator[Run]:
    """A sample a JSON object."""
    for item, places, some in rows(inputs, blobs, findings):
        start = 0
        for shape, alike in groupby(some, key=_shape):
            own = list(alike)
            taken = Rows(item, places[start : start + len(own)], own)
            start += len(own)
            try:
                yield _columnar(taken, *shape, key_field)
            except ValueError:
                yield from runs_of(_one_by_one(taken, findings, key_field))


def texts(inputs: Sequence[Input], blobs: Blobs, findings: Findings, *, text_field: str) -> Iterator[Lines]:
    """One field of every JSON object, which must be text; empty ones too."""
    for item, places, some in rows(inputs, blobs, findings):
        try:
            taken = Lines(item, places, [row[text_field].encode() for row in some])
        except (KeyError, AttributeError, UnicodeEncodeError):
            taken = _texts_one_by_one(item, places, some, findings, text_field)
        yield taken


def _texts_one_by_one(item: Input, places: list[int], some: list[Row], findings: Findings, text_field: str) -> Lines:
    kept, found = list[int](), list[bytes]()
    for place, row in zip(places, some, strict=True):
        text = row.get(text_field)
        if not isinstance(text, str):
            findings.reject(item.path, f"it has {_instead_of_text(text, text_field)}", offset=place)
            continue
        try:
            found.append(text.encode())
        except UnicodeEncodeError as error:
            findings.reject(item.path, f"its text is not Unicode: {error.reason}", offset=place)
            continue
        kept.append(place)
    return Lines(item, kept, found)


def rows(inputs: Sequence[Input], blobs: Blobs, findings: Findings) -> Iterator[Rows]:
    """The JSON objects of the lines."""
    scan = strict_json.scan
    for item, places, some in lines(inputs, blobs, findings):
        kept, found = list[int](), list[Row]()
        for place, line in zip(places, some, strict=True):
            try:
                text = str(line, "utf-8", "surrogatepass")
                row, end = scan(text, 0)
                is_plain = end == len(text) and isinstance(row, dict)
            except (StopIteration, ValueError, RecursionError):
                is_plain = False
            if not is_plain and (row := _looked_at(item, place, line, findings)) is None:
                continue
            kept.append(place)
            found.append(row)
        yield Rows(item, kept, found)


def _looked_at(item: Input, place: int, line: bytes, findings: Findings) -> Row | None:
    """The object of a line that has something around it, or None, and a finding that says why."""
    try:
        row = strict_json.loads(str(line.removeprefix(codecs.BOM_UTF8), "utf-8", "surrogatepass"))
    except UnicodeDecodeError as error:
        reject_utf8(findings, item, place, line, error)
        return None
    except (ValueError, RecursionError) as error:
        why = str(error) if isinstance(error, strict_json.KeyTwice) else f"it is not JSON: {error}"
        findings.reject(item.path, why, offset=place, content=line)
        return None
    if isinstance(row, dict):
        return row
    findings.reject(item.path, f"it is no JSON object, but {type(row).__name__}", offset=place, content=line)
    return None


def _shape(row: Row) -> tuple[tuple[str, ...], tuple[type, ...]]:
    return tuple(row), tuple(map(type, row.values()))


def _columnar(taken: Rows, names: tuple[str, ...], types: tuple[type, ...], key_field: str | None) -> Run:
    """Samples of one shape. Raises ValueError when a value or a key of one cannot be had."""
    item, places, some = taken
    columns, values = list[Column](), list[list[Value]]()
    for name, kind, column in zip(names, types, zip(*map(dict.values, some), strict=True), strict=bool(names)):
        if kind is not type(None):
            columns.append(Column(name, type_of_value(kind)))
            values.append(encode_all(column, columns[-1].type))
    keys = place_keys(item, places) if key_field is None else [key_of(row, key_field) for row in some]
    return Run(item, places, Batch(keys, tuple(columns), values))


def _one_by_one(taken: Rows, findings: Findings, key_field: str | None) -> Iterator[tuple[Input, int, Sample]]:
    item = taken.item
    for place, row in zip(taken.places, taken.rows, strict=True):
        try:
            columns, values = row_columns(row)
            key = place_key(item, place) if key_field is None else key_of(row, key_field)
        except ValueError as error:
            findings.reject(item.path, str(error), offset=place)
            continue
        yield item, place, Sample(key, columns, values)


def _instead_of_text(text: Any, text_field: str) -> str:
    if text is None:
        return f"no field {text_field!r}"
    return f"{type(text).__name__}, not text, in {text_field!r}"
