"""Rows of Parquet files, read page by page with their checksums. The only import of pyarrow to read."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow
import pyarrow.parquet

from components.contracts.dataset import FieldType
from components.dataset.batches import Column, Sample, Value, encode
from components.dataset.blobs import Blobs, Changed, Unreadable, open_file
from components.dataset.inputs import Input
from components.dataset.sources.findings import Findings, damaged
from components.dataset.sources.lines import key_of, place_key
from components.dataset.sources.parquet_columns import fault_of, is_wanted, roots_of, type_of

_ROWS_AT_ONCE = 256
pyarrow.set_memory_pool(pyarrow.system_memory_pool())  # the others keep tens of MB of what they are given back


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


def samples(
    inputs: Sequence[Input], blobs: Blobs, findings: Findings, *, key_field: str | None, names: Sequence[str] = ()
) -> Iterator[tuple[Input, int, Sample]]:
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


def _rows(
    item: Input, blobs: Blobs, findings: Findings, key_field: str | None, names: Sequence[str]
) -> Iterator[tuple[Input, int, Sample]]:
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
            for number, values in enumerate(_plain(batch, wanted), start=place):
                if item.start <= number < stop:
                    yield from _sample(item, number, values, findings, key_field)
            place += batch.num_rows
            if place >= stop:
                break


def _batches(item: Input, file: Any, group: int, columns: list[str]) -> Iterator[Any]:
    try:
        yield from file.iter_batches(batch_size=_ROWS_AT_ONCE, row_groups=[group], columns=columns, use_threads=False)
    except (pyarrow.ArrowException, OSError) as error:
        raise Unreadable(item.path, f"row group {group} cannot be read: {_line(error)}") from error


def _plain(batch: Any, wanted: Sequence[str]) -> Iterator[list[tuple[str, FieldType, Any]]]:
    table = pyarrow.Table.from_batches([batch])
    while any(pyarrow.types.is_struct(kind) for kind in table.schema.types):
        table = table.flatten()
    table = table.select([place for place, name in enumerate(table.schema.names) if is_wanted(name, wanted)])
    if not table.num_columns:  # none of those asked for is there: a row that has nothing is still a row
        yield from ([] for _ in range(batch.num_rows))
        return
    kinds = [type_of(kind) for kind in table.schema.types]
    columns = [column.to_pylist() for column in table.columns]
    for row in zip(*columns, strict=True):
        yield list(zip(table.schema.names, kinds, row, strict=True))


def _sample(
    item: Input, number: int, row: list[tuple[str, FieldType, Any]], findings: Findings, key_field: str | None
) -> Iterator[tuple[Input, int, Sample]]:
    columns, values = list[Column](), list[Value]()
    name = ""
    try:
        for name, kind, value in row:
            if value is not None:
                columns.append(Column(name, kind))
                values.append(encode(value, kind))
    except (ValueError, TypeError) as error:
        findings.reject(item.path, f"its column {name!r}: {error}", offset=number)
        return
    try:
        key = (
            place_key(item, number) if key_field is None else key_of({name: value for name, _, value in row}, key_field)
        )
    except (ValueError, TypeError) as error:
        findings.reject(item.path, str(error), offset=number)
        return
    findings.count("input_bytes", sum(map(len, values)))
    yield item, number, Sample(key, tuple(columns), values)


def _opened(item: Input, blobs: Blobs) -> Any:
    try:
        return pyarrow.parquet.ParquetFile(
            open_file(blobs, item), page_checksum_verification=True, pre_buffer=False, buffer_size=1 << 20
        )
    except (pyarrow.ArrowException, OSError) as error:
        raise Unreadable(item.path, f"is no complete Parquet file: {_line(error)}", item.size) from error


def _line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
