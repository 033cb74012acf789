"""Format parquet: one column a field, uncompressed pages of plain values that each carry a CRC32.

Written here, not by pyarrow: that takes 40 MB and a quarter of a second to load, and its files change with its version.
A page is a batch, a row group the pages of some MiB, the footer Thrift's compact protocol.
"""

import struct
import zlib
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from components.contracts.dataset import FieldType, SampleField
from components.dataset.batches import Batch, Value
from components.dataset.output import Output, Outputs

SUFFIXES = ("parquet",)
MAGIC = b"PAR1"
ROW_GROUP_BYTES = 8 << 20
"""All columns but the first of a row group wait in memory until it is complete."""
_CREATED_BY = b"argosy"
_FORMAT_VERSION = 2
_INT64, _DOUBLE, _BYTE_ARRAY = 2, 5, 6
_TYPES: dict[FieldType, int] = {
    "bytes": _BYTE_ARRAY, "text": _BYTE_ARRAY, "json": _BYTE_ARRAY, "int": _INT64, "float": _DOUBLE
}  # fmt: skip
_NUMBERS: dict[FieldType, tuple[type, str]] = {"int": (int, "<i8"), "float": (float, "<f8")}
_REQUIRED, _PLAIN, _RLE, _UTF8, _DATA_PAGE = 0, 0, 3, 0, 0

# Types of the compact protocol.
_I32, _I64, _BINARY, _LIST, _STRUCT = 5, 6, 8, 9, 12
Fields = Iterable[tuple[int, int, Any]]
"""Number, type and value of the fields of a struct, in the order of their numbers."""


class _Column(NamedTuple):
    """A column's part of one row group."""

    offset: int
    size_bytes: int
    num_values: int


class ParquetWriter:
    """Appends samples to one file."""

    def __init__(self, fields: tuple[SampleField, ...], outputs: Outputs) -> None:
        self._fields = fields
        self._file, self._place = outputs.new("parquet"), 0
        self._pages, self._num_bytes = [list[bytes]() for _ in fields], 0
        self._rows = 0
        self._groups = list[tuple[list[_Column], int]]()
        self.num_samples = 0
        self._write(MAGIC)
        self._group_start = self._place

    def add(self, batch: Batch) -> None:
        """Samples whose columns are the fields of the format."""
        place = {column.name: values for column, values in zip(batch.columns, batch.values, strict=True)}
        for pages, field in zip(self._pages, self._fields, strict=True):
            page = _page(_plain(place[field.name], field.type), len(batch.keys))
            self._num_bytes += len(page)
            if pages is self._pages[0]:
                self._write(page)  # where it lies in any case
            else:
                pages.append(page)
        self._rows += len(batch.keys)
        self.num_samples += len(batch.keys)
        if self._num_bytes >= ROW_GROUP_BYTES:
            self._write_group()

    def finish(self) -> list[Output]:
        """Write the last row group and the footer."""
        self._write_group()
        footer = _struct(_footer(self._fields, self._groups, self.num_samples))
        self._write(footer + struct.pack("<I", len(footer)) + MAGIC)
        self._file.end()
        return [self._file]

    def _write_group(self) -> None:
        if not self._rows:
            return
        columns = list[_Column]()
        start = self._group_start
        for pages in self._pages:
            for page in pages:
                self._write(page)
            columns.append(_Column(start, self._place - start, self._rows))
            start = self._place
            pages.clear()
        self._groups.append((columns, self._rows))
        self._num_bytes, self._rows, self._group_start = 0, 0, self._place

    def _write(self, data: bytes) -> None:
        self._file.write(data)
        self._place += len(data)


def _plain(values: list[Value], kind: FieldType) -> bytes:
    if kind in _NUMBERS:
        number, dtype = _NUMBERS[kind]
        return np.array([number(bytes(value)) for value in values], dtype=dtype).tobytes()
    sizes = np.fromiter(map(len, values), dtype="<u4", count=len(values)).tobytes()
    parts: list[Value] = [b""] * (2 * len(values))
    parts[::2] = [sizes[at : at + 4] for at in range(0, len(sizes), 4)]
    parts[1::2] = values
    return b"".join(parts)


def _page(data: bytes, num_values: int) -> bytes:
    crc = struct.unpack("<i", struct.pack("<I", zlib.crc32(data)))[0]
    values = [(1, _I32, num_values), (2, _I32, _PLAIN), (3, _I32, _RLE), (4, _I32, _RLE)]
    head = [(1, _I32, _DATA_PAGE), (2, _I32, len(data)), (3, _I32, len(data)), (4, _I32, crc), (5, _STRUCT, values)]
    return _struct(head) + data


def _footer(fields: tuple[SampleField, ...], groups: list[tuple[list[_Column], int]], num_rows: int) -> Fields:
    root = [(4, _BINARY, b"schema"), (5, _I32, len(fields))]
    return [
        (1, _I32, _FORMAT_VERSION),
        (2, _LIST, (_STRUCT, [root, *map(_schema, fields)])),
        (3, _I64, num_rows),
        (4, _LIST, (_STRUCT, [_group(fields, columns, rows) for columns, rows in groups])),
        (6, _BINARY, _CREATED_BY),
    ]


def _schema(field: SampleField) -> Fields:
    said: list[tuple[int, int, Any]] = [
        (1, _I32, _TYPES[field.type]), (3, _I32, _REQUIRED), (4, _BINARY, field.name.encode())
    ]  # fmt: skip
    if field.type in ("text", "json"):
        said += [(6, _I32, _UTF8), (10, _STRUCT, [(1, _STRUCT, [])])]  # the same, in the old way and the new
    return said


def _group(fields: tuple[SampleField, ...], columns: list[_Column], num_rows: int) -> Fields:
    chunks = [
        [(2, _I64, column.offset), (3, _STRUCT, [
            (1, _I32, _TYPES[field.type]), (2, _LIST, (_I32, [_PLAIN, _RLE])),
            (3, _LIST, (_BINARY, [field.name.encode()])), (4, _I32, 0), (5, _I64, column.num_values),
            (6, _I64, column.size_bytes), (7, _I64, column.size_bytes), (9, _I64, column.offset),
        ])]
        for field, column in zip(fields, columns, strict=True)
    ]  # fmt: skip
    total = sum(column.size_bytes for column in columns)
    return [(1, _LIST, (_STRUCT, chunks)), (2, _I64, total), (3, _I64, num_rows)]


def _struct(fields: Fields) -> bytes:
    """A struct in Thrift's compact protocol."""
    made, last = bytearray(), 0
    for number, kind, value in fields:
        assert 0 < number - last < 16
        made.append((number - last) << 4 | kind)
        made += _value(kind, value)
        last = number
    made.append(0)
    return bytes(made)


def _value(kind: int, value: Any) -> bytes:
    if kind in (_I32, _I64):
        return _varint(value << 1 ^ value >> 63)
    if kind == _BINARY:
        return _varint(len(value)) + bytes(value)
    if kind == _STRUCT:
        return _struct(value)
    of, members = value
    head = bytes([len(members) << 4 | of]) if len(members) < 15 else bytes([0xF0 | of]) + _varint(len(members))
    return head + b"".join(_value(of, member) for member in members)


def _varint(number: int) -> bytes:
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)
