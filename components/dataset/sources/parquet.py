"""Rows of Parquet files, read page by page with their checksums. The only import of pyarrow to read."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from components.contracts.dataset import FieldType
from components.dataset.arrow import give_back_first_touches, pyarrow
from components.dataset.batches import Batch, Column, Run, Sample, Value, encode, encode_all, runs_of
from components.dataset.blobs import BlobFile, Blobs, Changed, Unreadable
from components.dataset.inputs import Input
from components.dataset.sources.findings import Findings, damaged
from components.dataset.sources.lines import key_of, place_key, place_keys
from components.dataset.sources.parquet_columns import fault_of, is_wanted, roots_of, type_of

_BATCH_BYTES, _BATCH_ROWS = 256 << 10, 1024
"""About what is unpacked at once: rows may be large."""
_LOCAL_READ_BYTES, _REMOTE_READ_BYTES = 128 << 10, 1 << 20
"""What is read of each column at once. A store answers late, however little is asked for."""


def cuts(
    item: Input, blobs: Blobs, *, target: int, names: Sequence[str] = (), text_field: str | None = None
) -> Iterator[tuple[int, int, int]]:
    """Ranges of rows with their uncompressed bytes, each of one row group, about `target` bytes at most. Raises
    Unreadable, also when the columns called `names` (none: all), or `text_field`, hold what cannot be used.
    """
    file = _opened(item, blobs)
    if fault := fault_of(file.schema_arrow, names, text_field):
        raise Unreadable(item.path, fault)
    metadata = file.metadata
    row = 0
    for group in range(metadata.num_row_groups):
        found = metadata.row_group(group)
        count = -(-found.total_byte_size // target) if found.num_rows else 0
        edges = [row + found.num_rows * place // max(count, 1) for place in range(count + 1)]
        for start, end in itertools.pairwise(edges):
            if end > start:
                yield start, end, max(1, found.total_byte_size // count)
        row += found.num_rows


def runs(
    inputs: Sequence[Input], blobs: Blobs, findings: Findings, *, key_field: str | None, names: Sequence[str] = ()
) -> Iterator[Run]:
    """A sample a row: of all columns, or of those called `names`. Structs become columns of their own, joined by a
    dot.
    """
    for item in inputs:
        if not item.start:
            findings.count("num_inputs")
        try:
            yield from _rows(item, blobs, findings, key_field, names)
        except Changed as changed:
            findings.failed(changed)
        except Unreadable as unreadable:
            raise damaged(blobs.uri_of(item.path), unreadable.reason, unreadable.offset) from unreadable


def _rows(item: Input, blobs: Blobs, findings: Findings, key_field: str | None, names: Sequence[str]) -> Iterator[Run]:
    file = _opened(item, blobs)
    wanted = [*names, *([key_field] if key_field is not None and names else [])]
    roots = roots_of(file.schema_arrow, wanted)
    row, stop = 0, item.end if item.end >= 0 else file.metadata.num_rows
    for group in range(file.metadata.num_row_groups):
        start, row = row, row + file.metadata.row_group(group).num_rows
        if row <= item.start or start >= stop:
            continue
        place = start
        for batch in _batches(item, file, group, roots):
            first, last = max(place, item.start), min(place + batch.num_rows, stop)
            if first < last:
                own = batch.slice(first - place, last - first)
                yield from _runs(item, range(first, last), own, wanted, findings, key_field)
                give_back_first_touches()
            place += batch.num_rows
            if place >= stop:
                break


def _batches(item: Input, file: Any, group: int, columns: list[str]) -> Iterator[Any]:
    found = file.metadata.row_group(group)
    at_once = min(_BATCH_ROWS, max(1, _BATCH_BYTES * found.num_rows // max(1, found.total_byte_size)))
    try:
        yield from file.iter_batches(batch_size=at_once, row_groups=[group], columns=columns, use_threads=False)
    except (pyarrow.ArrowException, OSError) as error:
        raise Unreadable(item.path, f"row group {group} cannot be read: {_line(error)}") from error


def _runs(
    item: Input, places: range, batch: Any, wanted: Sequence[str], findings: Findings, key_field: str | None
) -> Iterator[Run]:
    table = pyarrow.Table.from_batches([batch])
    while any(pyarrow.types.is_struct(kind) for kind in table.schema.types):
        table = table.flatten()
    table = table.select([place for place, name in enumerate(table.schema.names) if is_wanted(name, wanted)])
    columns = tuple(Column(field.name, type_of(field.type)) for field in table.schema)
    if columns and not any(column.null_count for column in table.columns):
        try:
            values = [_encoded(column, kind) for column, (_, kind) in zip(table.columns, columns, strict=True)]
            keys = _keys(item, places, columns, values, key_field)
        except (ValueError, TypeError):
            pass  # one by one, to find which
        else:
            findings.count("input_bytes", sum(sum(map(len, column)) for column in values))
            yield Run(item, list(places), Batch(keys, columns, values))
            return
    found = [_found(column) for column in table.columns]
    yield from runs_of(_one_by_one(item, places, columns, found, findings, key_field))


def _encoded(column: Any, kind: FieldType) -> list[Value]:
    """All values of a column that has no nulls. Raises ValueError, TypeError."""
    if pyarrow.types.is_string(column.type):
        as_bytes = pyarrow.binary()
    elif pyarrow.types.is_large_string(column.type):
        as_bytes = pyarrow.large_binary()
    else:
        return encode_all(column.to_pylist(), kind)
    # The bytes as they are, and one look at all of them, for a decoding and an encoding of each.
    values: list[Value] = [value for chunk in column.chunks for value in chunk.view(as_bytes).to_pylist()]
    b"\0".join(values).decode()
    return values


def _found(column: Any) -> list[Any]:
    """All values of a column as Python's own; for one that is not UTF-8 what is wrong with it."""
    try:
        values: list[Any] = column.to_pylist()
    except UnicodeDecodeError:
        return [_value_or_fault(value) for value in column]
    return values


def _value_or_fault(value: Any) -> Any:
    try:
        return value.as_py()
    except UnicodeDecodeError as error:
        return error


def _keys(
    item: Input, places: range, columns: tuple[Column, ...], values: list[list[Value]], key_field: str | None
) -> list[str]:
    if key_field is None:
        return place_keys(item, places)
    for (name, kind), found in zip(columns, values, strict=True):
        if name == key_field and kind in ("text", "int"):
            keys = [bytes(key).decode() for key in found]
            return [key_of({key_field: key}, key_field) for key in keys]
    raise ValueError(f"no column {key_field!r} that names rows")


def _one_by_one(
    item: Input, places: range, columns: tuple[Column, ...], found: list[list[Any]], findings: Findings,
    key_field: str | None,
) -> Iterator[tuple[Input, int, Sample]]:  # fmt: skip
    # none of the columns asked for is there: a row that has nothing is still a row
    for number, row in zip(places, zip(*found, strict=True) if found else itertools.repeat(()), strict=bool(found)):
        yield from _sample(item, number, columns, row, findings, key_field)


def _sample(
    item: Input, number: int, has: tuple[Column, ...], row: tuple[Any, ...], findings: Findings, key_field: str | None
) -> Iterator[tuple[Input, int, Sample]]:
    columns, values = list[Column](), list[Value]()
    name = ""
    try:
        for column, value in zip(has, row, strict=True):
            name = column.name
            if isinstance(value, UnicodeDecodeError):
                raise ValueError(f"it is not UTF-8: {value.reason} at byte {value.start} of it")
            if value is not None:
                columns.append(column)
                values.append(encode(value, column.type))
    except (ValueError, TypeError) as error:
        findings.reject(item.path, f"its column {name!r}: {error}", offset=number)
        return
    try:
        key = (
            place_key(item, number)
            if key_field is None
            else key_of({column.name: value for column, value in zip(has, row, strict=True)}, key_field)
        )
    except (ValueError, TypeError) as error:
        findings.reject(item.path, str(error), offset=number)
        return
    findings.count("input_bytes", sum(map(len, values)))
    yield item, number, Sample(key, tuple(columns), values)


def _opened(item: Input, blobs: Blobs) -> Any:
    size = _REMOTE_READ_BYTES if blobs.in_flight > 1 else _LOCAL_READ_BYTES
    try:
        return pyarrow.parquet.ParquetFile(
            BlobFile(blobs, item), page_checksum_verification=True, pre_buffer=False, buffer_size=size
        )
    except (pyarrow.ArrowException, OSError) as error:
        raise Unreadable(item.path, f"is no complete Parquet file: {_line(error)}", item.size) from error


def _line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
