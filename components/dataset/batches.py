"""Samples on their way from an input to a shard, many at a time, column by column.

Python is slow a call at a time; a batch of a thousand samples costs a format writer a few calls.
"""

import json
import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, compress
from typing import Any, NamedTuple

from components.contracts.dataset import FieldType
from components.dataset import strict_json
from components.dataset.inputs import Input

BATCH_BYTES = 1 << 20
BATCH_SAMPLES = 1024

Value = bytes | memoryview


class Column(NamedTuple):
    """A field of the samples of a batch."""

    name: str
    type: FieldType


class Batch(NamedTuple):
    """Samples that have the same fields."""

    keys: list[str]
    columns: tuple[Column, ...]
    values: list[list[Value]]
    """One list a column, as long as `keys`."""


class Sample(NamedTuple):
    """One sample before it joins a batch."""

    key: str
    columns: tuple[Column, ...]
    values: Sequence[Value]


class Run(NamedTuple):
    """Consecutive samples that have the same fields, as they come out of a source."""

    item: Input
    places: list[int]
    batch: Batch
    items: list[Input] | None = None
    """The input of each sample; None when all are of `item`."""

    def input_of(self, number: int) -> Input:
        """Where a sample of the run comes from."""
        return self.item if self.items is None else self.items[number]


def runs_of(samples: Iterable[tuple[Input, int, Sample]]) -> Iterator[Run]:
    """Samples that come one by one, together."""
    items, places, keys = list[Input](), list[int](), list[str]()
    columns, values, size = tuple[Column, ...](), list[list[Value]](), 0
    for of, place, (key, has, row) in samples:
        is_other = has is not columns and has != columns
        if keys and (is_other or size > BATCH_BYTES or len(keys) >= BATCH_SAMPLES):
            yield _run(items, places, Batch(keys, columns, values))
            keys = []
        if not keys:
            items, places, keys, columns, values, size = [], [], [], has, [[] for _ in has], 0
        items.append(of)
        places.append(place)
        keys.append(key)
        for column, value in zip(values, row, strict=True):
            column.append(value)
            size += len(value)
    if keys:
        yield _run(items, places, Batch(keys, columns, values))


def _run(items: list[Input], places: list[int], batch: Batch) -> Run:
    return Run(items[0], places, batch, None if all(item is items[0] for item in items) else items)


def without(batch: Batch, is_out: Sequence[bool]) -> Batch:
    """The batch with some of its samples left out."""
    kept = [not out for out in is_out]
    return Batch(
        list(compress(batch.keys, kept)), batch.columns, [list(compress(column, kept)) for column in batch.values]
    )


def batched(batches: Iterable[Batch]) -> Iterator[Batch]:
    """Batches of a size that depends on the samples alone, not on how they came.

    One ends where the fields change, after BATCH_SAMPLES, and with the sample that makes it exceed BATCH_BYTES.
    """
    held, size = Batch([], (), []), 0
    for keys, columns, values in batches:
        if held.keys and columns != held.columns:
            yield held
            held = Batch([], (), [])
        if not held.keys:
            held, size = Batch([], columns, [[] for _ in columns]), 0
        ends, start = _ends(values), 0
        while start < len(keys):
            before = ends[start - 1] if start else 0
            full = bisect_right(ends, BATCH_BYTES - size + before, start) + 1
            end = min(len(keys), full, start + BATCH_SAMPLES - len(held.keys))
            held.keys.extend(keys[start:end])
            for column, more in zip(held.values, values, strict=True):
                column.extend(more[start:end])
            size, start = size + ends[end - 1] - before, end
            if size > BATCH_BYTES or len(held.keys) >= BATCH_SAMPLES:
                yield held
                held, size = Batch([], columns, [[] for _ in columns]), 0
    if held.keys:
        yield held


def _ends(values: list[list[Value]]) -> list[int]:
    """The bytes of the first sample, of the first two, and so on."""
    if len(values) == 1:
        return list(accumulate(map(len, values[0])))
    return list(accumulate(map(sum, zip(*(map(len, column) for column in values), strict=True))))


_TYPES: dict[type, FieldType] = {str: "text", bool: "json", int: "int", float: "float", bytes: "bytes"}
_BY_SUFFIX: dict[str, FieldType] = {
    "txt": "text", "text": "text", "transcript": "text", "json": "json", "jsn": "json",
    "cls": "int", "cls2": "int", "class": "int", "count": "int", "index": "int", "inx": "int", "id": "int",
}  # fmt: skip


_PARSERS: dict[FieldType, Callable[[str], Any]] = {"int": int, "float": float, "json": strict_json.loads}


def type_of_suffix(suffix: str) -> FieldType:
    """What a file of that suffix holds, as WebDataset's decoders see it."""
    return _BY_SUFFIX.get(suffix.rpartition(".")[2], "bytes")


def row_columns(row: dict[str, Any]) -> tuple[tuple[Column, ...], list[Value]]:
    """The fields of a JSON object and their values as bytes; null counts as absent. Raises ValueError."""
    columns, values = [], list[Value]()
    for name, value in row.items():
        if value is None:
            continue
        kind = _TYPES.get(type(value), "json")
        columns.append(Column(name, kind))
        try:
            values.append(encode(value, kind))
        except ValueError as error:
            raise ValueError(f"its field {name!r}: {error}") from error
    return tuple(columns), values


def type_of_value(kind: type) -> FieldType:
    """What a field holds whose values JSON gives as `kind`."""
    return _TYPES.get(kind, "json")


def encode_all(values: Sequence[Any], kind: FieldType) -> list[Value]:
    """`encode` of many values, which are Python's own for that type. Raises ValueError."""
    match kind:
        case "text":
            return [value.encode() for value in values]
        case "bytes":
            return [value if type(value) is bytes else bytes(value) for value in values]
        case "int" if min(values) >= -(1 << 63) and max(values) < 1 << 63:
            return [b"%d" % value for value in values]
        case _:
            return [encode(value, kind) for value in values]


def encode(value: Any, kind: FieldType) -> bytes:
    """A Python value as the bytes of a field. Raises ValueError for what the type cannot hold."""
    match kind:
        case "bytes":
            return value if isinstance(value, bytes) else bytes(value)
        case "text":
            return str(value).encode()  # UnicodeEncodeError, for half a surrogate pair, is a ValueError
        case "int":
            if not -(1 << 63) <= value < 1 << 63:
                raise ValueError(f"{value} does not fit 64 bits")
            return b"%d" % value
        case "float":
            if not math.isfinite(value):
                raise ValueError(f"{value} is not a number JSON can hold")
            return repr(float(value)).encode()
        case "json":
            text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False, sort_keys=True)
            return text.encode()


def conform(
    run: Run, schema: tuple[Column, ...], *, may_have_more: bool, reject: Callable[[int, str], None]
) -> Iterator[Run]:
    """The samples with exactly the columns of `schema`, in its order; `reject` is told the number of each that does not
    fit, and why.
    """
    keys, columns, values = run.batch
    if columns == schema:
        yield run
        return
    if (as_they_are := _picked(run.batch, schema, may_have_more)) is not None:
        yield run._replace(batch=as_they_are)
        return
    kept, fitting, converted = list[int](), list[str](), [list[Value]() for _ in schema]
    for row, key in enumerate(keys):
        try:
            found = _conformed(key, columns, [column[row] for column in values], schema, may_have_more)
        except ValueError as error:
            reject(row, str(error))
            continue
        kept.append(row)
        fitting.append(key)
        for column, value in zip(converted, found, strict=True):
            column.append(value)
    if fitting:
        items = None if run.items is None else [run.items[row] for row in kept]
        yield Run(run.input_of(kept[0]), [run.places[row] for row in kept], Batch(fitting, schema, converted), items)


def _picked(batch: Batch, schema: tuple[Column, ...], may_have_more: bool) -> Batch | None:
    """The columns of `schema`, when no value needs a look; else None."""
    types, values = {column.name: column.type for column in batch.columns}, list[list[Value]]()
    if not may_have_more and types.keys() - {column.name for column in schema}:
        return None
    for name, wanted in schema:
        if not _is_direct(types.get(name, "text" if name == "key" else None), wanted):
            return None
    held = {column.name: found for column, found in zip(batch.columns, batch.values, strict=True)}
    for name, _ in schema:
        try:
            values.append(held[name] if name in held else [key.encode() for key in batch.keys])
        except UnicodeEncodeError:
            return None
    return Batch(batch.keys, schema, values)


def _is_direct(kind: FieldType | None, wanted: FieldType) -> bool:
    return kind == wanted or (kind is not None and wanted == "bytes") or (kind, wanted) == ("int", "float")


def _conformed(
    key: str, columns: tuple[Column, ...], row: list[Value], schema: tuple[Column, ...], may_have_more: bool
) -> list[Value]:
    found = {column.name: (column.type, value) for column, value in zip(columns, row, strict=True)}
    if not may_have_more and (unknown := sorted(found.keys() - {column.name for column in schema})):
        raise ValueError(f"its field {unknown[0]} is one that the first record does not have")
    values = []
    for name, wanted in schema:
        if name not in found:
            if name != "key":
                raise ValueError(f"it has no field {name}")
            found["key"] = ("text", key.encode())
        values.append(_converted(*found[name], name, wanted))
    return values


def _converted(kind: FieldType, value: Value, name: str, wanted: FieldType) -> Value:
    if _is_direct(kind, wanted):
        return value
    if kind == "bytes":  # from a file: look inside
        return encode(_parsed(bytes(value), name, wanted), wanted)
    if wanted == "json":
        return encode(_parsed(bytes(value), name, "text" if kind == "text" else "json"), "json")
    raise ValueError(f"its field {name} is {kind}, not {wanted}")


def _parsed(value: bytes, name: str, wanted: FieldType) -> Any:
    try:
        text = value.decode()
        return text if wanted == "text" else _PARSERS[wanted](text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"its field {name} is not {wanted}: {error}") from error
