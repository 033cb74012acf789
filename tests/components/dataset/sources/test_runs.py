"""Records travel many at a time, and one that is bad costs itself alone."""

from pathlib import Path

import pyarrow
import pyarrow.parquet

from components.dataset.batches import Run
from components.dataset.blobs import LocalFiles
from components.dataset.inputs import Input
from components.dataset.sources import json_lines, lines, parquet
from components.dataset.sources.findings import Findings


def an_input(path: Path, kind: str) -> Input:
    status = path.stat()
    return Input(kind, str(path), status.st_size, status.st_mtime_ns)


def values_of(runs: list[Run]) -> list[bytes]:
    return [bytes(value) for run in runs for value in run.batch.values[0]]


def test_lines_of_a_piece_are_one_run_and_what_is_no_text_is_left_out(tmp_path: Path) -> None:
    path, findings = tmp_path / "a.txt", Findings(max_bad_records=1)
    path.write_bytes(b"one\r\n\ntwo\n\xff\nthree\n")

    (run,) = lines.text_runs([an_input(path, "lines")], LocalFiles("/"), findings)

    assert (run.places, run.batch.values) == ([0, 6, 12], [[b"one", b"two", b"three"]])
    assert [record.offset for record in findings.bad] == [10]


def test_objects_of_one_shape_are_one_run_and_a_number_that_does_not_fit_is_left_out(tmp_path: Path) -> None:
    path, findings = tmp_path / "a.jsonl", Findings(max_bad_records=1)
    path.write_text('{"n": 1}\n {"n": 2} \n{"n": 99999999999999999999}\n{"n": 4}\n')

    runs = list(json_lines.runs([an_input(path, "jsonl")], LocalFiles("/"), findings, key_field=None))

    assert values_of(runs) == [b"1", b"2", b"4"]
    assert [record.offset for record in findings.bad] == [20]

    path.write_text('{"n": 1}\n{"n": 2}\n{"n": "x"}\n')
    runs = list(json_lines.runs([an_input(path, "jsonl")], LocalFiles("/"), findings, key_field=None))
    assert [run.places for run in runs] == [[0, 9], [18]]


def test_large_rows_of_a_parquet_file_are_unpacked_one_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    images = [bytes([number]) * 300_000 for number in range(5)]
    pyarrow.parquet.write_table(pyarrow.table({"jpg": images}), path, use_dictionary=False, compression="none")

    runs = list(parquet.runs([an_input(path, "parquet")], LocalFiles("/"), Findings(max_bad_records=0), key_field=None))

    assert [run.places for run in runs] == [[0], [1], [2], [3], [4]]
    assert values_of(runs) == images


def test_small_rows_of_a_parquet_file_are_one_run_and_one_without_a_value_lacks_its_field(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"a": ["x", "y", "z"], "b": [1, None, 3]}), path)
    item = an_input(path, "parquet")

    def found(*names: str) -> list[list[str]]:
        runs = parquet.runs([item], LocalFiles("/"), Findings(max_bad_records=0), key_field=None, names=names)
        return [[column.name for column in run.batch.columns for _ in run.places] for run in runs]

    assert found("a") == [["a", "a", "a"]]
    assert found() == [["a", "b"], ["a"], ["a", "b"]]
