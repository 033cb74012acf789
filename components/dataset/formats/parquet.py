"""Format parquet: one column a field, uncompressed pages that each carry a CRC32. The only import of pyarrow to write.

pyarrow neither writes nor checks these sums unless it is told to; both are told here.
"""

import io
from collections.abc import Iterator
from typing import Any, BinaryIO

import pyarrow
import pyarrow.parquet

from components.contracts.dataset import FieldType, SampleField, ShardContent
from components.dataset.batches import Batch
from components.dataset.output import Output, Outputs
from components.integrity.fault import Fault

SUFFIXES = ("parquet",)
ROW_GROUP_BYTES = 8 << 20
"""A row group waits in memory until it is complete."""
_ARROW: dict[FieldType, Any] = {
    "bytes": pyarrow.binary(), "text": pyarrow.string(), "int": pyarrow.int64(), "float": pyarrow.float64(),
    "json": pyarrow.string(),
}  # fmt: skip
_NUMBERS: dict[FieldType, type] = {"int": int, "float": float}


class ParquetWriter:
    """Appends samples to one file."""

    def __init__(self, fields: tuple[SampleField, ...], outputs: Outputs) -> None:
        self._fields = fields
        self._file = outputs.new("parquet")
        self._schema = pyarrow.schema([pyarrow.field(field.name, _ARROW[field.type], False) for field in fields])
        self._writer = pyarrow.parquet.ParquetWriter(
            _Sink(self._file), self._schema, compression="none", use_dictionary=False, write_statistics=False,
            write_page_checksum=True, version="2.6", data_page_version="1.0", store_schema=False,
        )  # fmt: skip
        self._waiting, self._num_waiting = list[Any](), 0
        self.num_samples = 0

    def add(self, batch: Batch) -> None:
        """Samples whose columns are the fields of the format."""
        place = {column.name: values for column, values in zip(batch.columns, batch.values, strict=True)}
        arrays = [_array(place[field.name], field.type) for field in self._fields]
        self._waiting.append(pyarrow.record_batch(arrays, schema=self._schema))
        self._num_waiting += self._waiting[-1].nbytes
        self.num_samples += len(batch.keys)
        if self._num_waiting >= ROW_GROUP_BYTES:
            self._write_group()

    def finish(self) -> list[Output]:
        """Write the last row group and the footer."""
        self._write_group()
        self._writer.close()
        self._file.end()
        return [self._file]

    def _write_group(self) -> None:
        if self._waiting:
            table = pyarrow.Table.from_batches(self._waiting, schema=self._schema)
            self._writer.write_table(table, row_group_size=table.num_rows)
            self._waiting, self._num_waiting = [], 0


class _Sink(io.RawIOBase):
    """What pyarrow writes to."""

    def __init__(self, file: Output) -> None:
        self._target, self._position = file, 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self._target.write(bytes(view))
        self._position += len(view)
        return len(view)


def _array(values: list[Any], kind: FieldType) -> Any:
    if kind in _NUMBERS:
        return pyarrow.array([_NUMBERS[kind](bytes(value)) for value in values], type=_ARROW[kind])
    # bytes, not views: pyarrow never lets go of the buffer behind a view (seen with 26.0)
    array = pyarrow.array(list(map(bytes, values)), type=pyarrow.binary())
    return array if kind == "bytes" else array.cast(pyarrow.string())


def check(file: BinaryIO, name: str, content: ShardContent, fields: tuple[SampleField, ...]) -> Iterator[Fault]:
    """What is wrong with a file opened at its start: footer, columns, and every page against its CRC32."""
    try:
        found = pyarrow.parquet.ParquetFile(
            file, page_checksum_verification=True, pre_buffer=False, buffer_size=1 << 20
        )
    except (pyarrow.ArrowException, OSError) as error:
        yield Fault(name, f"has no readable footer: {_line(error)}", offset=content.files[0].size_bytes)
        return
    if (names := tuple(found.schema_arrow.names)) != tuple(field.name for field in fields):
        yield Fault(
            name, "has other columns", expected=", ".join(field.name for field in fields), actual=", ".join(names)
        )
        return
    for group in range(found.metadata.num_row_groups):
        for place, field in enumerate(fields):
            chunk = found.metadata.row_group(group).column(place)
            try:
                for batch in found.iter_batches(batch_size=1024, row_groups=[group], columns=[field.name]):
                    batch.validate(full=True)
            except (pyarrow.ArrowException, OSError) as error:
                yield Fault(
                    name, f"column {field.name} of row group {group} cannot be read: {_line(error)}",
                    offset=chunk.data_page_offset,
                )  # fmt: skip
    if found.metadata.num_rows != content.num_samples:
        yield Fault(
            name, "holds another number of samples", expected=str(content.num_samples),
            actual=str(found.metadata.num_rows),
        )  # fmt: skip


def _line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
