"""Records travel many at a time, and one that is bad costs itself alone."""

from pathlib import Path

import pyarrow
import pyarrow.parquet

from components.contracts.dataset import PackingOptions, ReadOptions
from components.dataset.batches import Column, Run
from components.dataset.blobs import LocalFiles
from components.dataset.inputs import Input
from components.dataset.sources import files, json_lines, lines, parquet, read
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


def test_files_of_one_name_are_one_sample_and_one_that_fails_fails_it(tmp_path: Path) -> None:
    findings, inputs = Findings(max_bad_records=2), list[Input]()
    for name in ("a.jpg", "a.txt", "b.jpg", "b.txt", "c.jpg", "c.JPG", "c.txt", "d.jpg", "e.jpg", "e.txt"):
        (tmp_path / name).write_bytes(name.encode())
        inputs.append(an_input(tmp_path / name, "grouped"))
    (tmp_path / "b.txt").unlink()

    runs = list(files.runs(inputs, LocalFiles("/"), findings, group=True))

    pair, single = (Column("jpg", "bytes"), Column("txt", "bytes")), (Column("jpg", "bytes"),)
    assert [(run.batch.columns, run.batch.values) for run in runs] == [
        (pair, [[b"a.jpg", b"c.jpg"], [b"a.txt", b"c.txt"]]), (single, [[b"d.jpg"]]), (pair, [[b"e.jpg"], [b"e.txt"]]),
    ]  # fmt: skip
    assert [key.rpartition("/")[2] for run in runs for key in run.batch.keys] == ["a", "c", "d", "e"]
    assert [run.input_of(number).path[-5:] for run in runs for number in range(len(run.places))] == [
        "a.txt", "c.txt", "d.jpg", "e.txt",
    ]  # fmt: skip
    assert [problem.where for problem in findings.changed] == [str(tmp_path / "b.txt")]
    assert [record.path[-5:] for record in findings.bad] == ["c.JPG"]
    assert findings.counts == {"num_inputs": 10, "input_bytes": 45}


def test_small_documents_of_this_machine_come_together_and_a_large_one_in_pieces_between(tmp_path: Path) -> None:
    findings, inputs = Findings(max_bad_records=0), list[Input]()
    for name, size in (("a", 3), ("b", 0), ("c", (4 << 20) + 1), ("d", 5), ("e", 6)):
        (tmp_path / name).write_bytes(name.encode() * size)
        inputs.append(an_input(tmp_path / name, "file"))
    (tmp_path / "d").write_bytes(b"x" * 7)

    options = PackingOptions(sequence_length=8, over_long="split")
    first, begin, end, last = read.documents(inputs, LocalFiles("/"), findings, ReadOptions(), options)

    assert first == read.Measured([b"aaa"], [True])
    assert isinstance(begin, read.Part)
    assert (len(begin.data), begin.is_last, end) == (4 << 20, False, read.Part(b"c", is_last=True, closes=True))
    assert last == read.Measured([b"eeeeee"], [True])
    assert [problem.where for problem in findings.changed] == [str(tmp_path / "d")]
    assert findings.counts == {
        "input_bytes": (4 << 20) + 10, "num_inputs": 5, "num_documents": 3, "num_empty": 1, "num_split": 1,
    }  # fmt: skip
