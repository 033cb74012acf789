"""Samples on their way from an input to a shard, many at a time, column by column.

Python is slow a call at a time; a batch of a thousand samples costs a format writer a few calls.
"""

import json
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from components.contracts.dataset import FieldType

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


def batched(samples: Iterator[Sample]) -> Iterator[Batch]:
    """Consecutive samples with the same columns, together."""
    keys, columns, values, size = list[str](), tuple[Column, ...](), list[list[Value]](), 0
    for key, has, row in samples:
        if keys and ((has is not columns and has != columns) or size > BATCH_BYTES or len(keys) >= BATCH_SAMPLES):
            yield Batch(keys, columns, values)
            keys = []
        if not keys:
            columns, values, size = has, [[] for _ in has], 0
        keys.append(key)
        if len(row) == 1:  # most are, and a loop costs as much as all the rest
            values[0].append(row[0])
            size += len(row[0])
            continue
        for column, value in zip(values, row, strict=True):
            column.append(value)
            size += len(value)
    if keys:
        yield Batch(keys, columns, values)


_TYPES: dict[type, FieldType] = {str: "text", bool: "json", int: "int", float: "float", bytes: "bytes"}
_BY_SUFFIX: dict[str, FieldType] = {
    "txt": "text", "text": "text", "transcript": "text", "json": "json", "jsn": "json",
    "cls": "int", "cls2": "int", "class": "int", "count": "int", "index": "int", "inx": "int", "id": "int",
}  # fmt: skip


_PARSERS: dict[FieldType, Callable[[str], Any]] = {"int": int, "float": float, "json": json.loads}


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
        values.append(encode(value, kind))
    return tuple(columns), values


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


def conform(sample: Sample, schema: tuple[Column, ...], *, may_have_more: bool) -> Sample:
    """The sample with exactly the columns of `schema`, in its order. Raises ValueError that says what does not fit."""
    if sample.columns == schema:
        return sample
    found = {column.name: (column.type, value) for column, value in zip(sample.columns, sample.values, strict=True)}
    if not may_have_more and (unknown := sorted(found.keys() - {column.name for column in schema})):
        raise ValueError(f"its field {unknown[0]} is one that the first record does not have")
    values = []
    for name, wanted in schema:
        if name not in found:
            if name != "key":
                raise ValueError(f"it has no field {name}")
            found["key"] = ("text", sample.key.encode())
        values.append(_converted(*found[name], name, wanted))
    return Sample(sample.key, schema, values)


def _converted(kind: FieldType, value: Value, name: str, wanted: FieldType) -> Value:
    if kind == wanted or wanted == "bytes" or (kind, wanted) == ("int", "float"):
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
