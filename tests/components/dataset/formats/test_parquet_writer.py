"""Parquet files written without pyarrow are what pyarrow reads, checksums and all."""

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from components.contracts.dataset import FieldType, SampleField
from components.dataset.batches import Batch, Column
from components.dataset.formats.parquet_writer import ROW_GROUP_BYTES, ParquetWriter
from components.dataset.output import Outputs, Spares

KINDS: dict[FieldType, list[bytes]] = {
    "bytes": [b"\x00\xff", b""], "text": ["é".encode(), b"plain"], "int": [b"-9223372036854775808", b"7"],
    "float": [b"1.5", b"-0.0"], "json": [b'{"a":1}', b"[]"],
}  # fmt: skip
ROWS: dict[str, list[Any]] = {
    "bytes": [b"\x00\xff", b""], "text": ["é", "plain"], "int": [-9223372036854775808, 7], "float": [1.5, -0.0],
    "json": ['{"a":1}', "[]"],
}  # fmt: skip


def written(path: Path, fields: tuple[SampleField, ...], batches: list[list[list[bytes]]]) -> Path:
    columns = tuple(Column(field.name, field.type) for field in fields)
    with Spares() as spares, Outputs(spares) as outputs:
        writer = ParquetWriter(fields, outputs)
        for values in batches:
            writer.add(Batch([""] * len(values[0]), columns, list(map(list, values))))
        (file,) = writer.finish()
        shutil.copy(file.path, path)
    return path


def opened(path: Path) -> Any:
    return pyarrow.parquet.ParquetFile(path, page_checksum_verification=True)


def test_every_type_is_read_back(tmp_path: Path) -> None:
    fields = tuple(SampleField(name=kind, type=kind) for kind in KINDS)
    file = opened(written(tmp_path / "a.parquet", fields, [list(KINDS.values())] * 3))
    assert file.read().to_pydict() == {kind: rows * 3 for kind, rows in ROWS.items()}
    assert [str(kind) for kind in file.schema_arrow.types] == ["binary", "string", "int64", "double", "string"]
    assert not any(field.nullable for field in file.schema_arrow)


def test_equal_samples_give_these_bytes_whatever_is_installed(tmp_path: Path) -> None:
    fields = tuple(SampleField(name=kind, type=kind) for kind in KINDS)
    path = written(tmp_path / "a.parquet", fields, [list(KINDS.values())])
    assert hashlib.sha256(path.read_bytes()).hexdigest() == (
        "971386d3832cc61858abb431cfd918b342dc06c7c031b3bb244350f2a71a7d49"
    )


@pytest.mark.parametrize("num_columns", [1, 14, 15, 200])
def test_any_number_of_columns(tmp_path: Path, num_columns: int) -> None:
    fields = tuple(SampleField(name=f"column {number}", type="int") for number in range(num_columns))
    file = opened(written(tmp_path / "a.parquet", fields, [[[b"%d" % number] for number in range(num_columns)]]))
    assert file.read().to_pylist() == [{f"column {number}": number for number in range(num_columns)}]


def test_a_file_without_rows_is_one(tmp_path: Path) -> None:
    file = opened(written(tmp_path / "a.parquet", (SampleField(name="a", type="text"),), []))
    assert file.read().num_rows == 0


def test_row_groups_end_when_they_are_large(tmp_path: Path) -> None:
    page = [[bytes(1 << 20)]]
    file = opened(written(tmp_path / "a.parquet", (SampleField(name="a", type="bytes"),), [page] * 20))
    sizes = [file.metadata.row_group(number).num_rows for number in range(file.metadata.num_row_groups)]
    assert sizes == [8, 8, 4]
    assert ROW_GROUP_BYTES == 8 << 20


def test_a_flipped_bit_is_found_by_its_checksum(tmp_path: Path) -> None:
    path = written(tmp_path / "a.parquet", (SampleField(name="a", type="bytes"),), [[[b"x" * 1000]]])
    content = bytearray(path.read_bytes())
    content[500] ^= 1
    path.write_bytes(content)
    with pytest.raises(OSError, match="CRC"):
        opened(path).read()


def test_writing_does_not_load_pyarrow() -> None:
    program = "import components.shard.pack, sys; assert not [name for name in sys.modules if 'pyarrow' in name]"
    subprocess.run([sys.executable, "-c", program], check=True)
