"""Proves Parquet files: footer, columns, and every page against its CRC32, which pyarrow must be told to check."""

from collections.abc import Iterator
from typing import BinaryIO

from components.contracts.dataset import SampleField, ShardContent
from components.dataset.arrow import pyarrow
from components.integrity.fault import Fault


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
