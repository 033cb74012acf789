"""Progress lines are taken from whatever is in the file, and nothing in it can do harm."""

import os
from pathlib import Path

import pytest

from components.agent.progress import ProgressTail, parse_line

AT = "2026-11-29T12:00:00.000Z"


def test_a_line_tells_step_times_and_metrics() -> None:
    line = parse_line(b'{"step": 7, "loss": 2.5, "tokens": 512, "step_s": 0.25, "data_s": 0.1, "accuracy": 0.5}')
    assert line is not None
    view = line.view(AT)
    assert (view.step, view.loss, view.tokens, view.step_seconds, view.data_seconds) == (7, 2.5, 512, 0.25, 0.1)
    assert line.metrics == {"loss": 2.5, "accuracy": 0.5}


def test_a_line_may_tell_the_number_of_steps_only() -> None:
    line = parse_line(b'{"total_steps": 100}')
    assert line is not None
    assert (line.step, line.total_steps) == (None, 100)


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"{", b"7", b"[]", b"null", b'{"loss": 1}', b'{"step": "7"}', b'{"step": -1}', b'{"step": true}',
        b'{"step": 1.5}', b'{"step": NaN}', b'{"step": 1e400}', b'{"step": ' + b"9" * 5000 + b"}", b"\xff\x00",
        b'{"step": 99999999999999999999}', b"[" * 100_000,
    ],
)  # fmt: skip
def test_a_line_that_makes_no_sense_is_nothing(raw: bytes) -> None:
    assert parse_line(raw) is None


def test_numbers_that_are_not_finite_are_left_out() -> None:
    line = parse_line(b'{"step": 1, "loss": NaN, "a": Infinity, "b": 1e999, "step_s": -1, "c": ' + b"9" * 400 + b"}")
    assert line is not None
    assert line.metrics == {}
    assert line.view(AT).step_seconds is None


def test_a_torn_line_is_read_when_it_is_whole(tmp_path: Path) -> None:
    file, tail = tmp_path / "p", ProgressTail(tmp_path / "p")
    assert tail.poll() == []
    file.write_text('{"step": 1}\n{"st')
    assert [line.step for line in tail.poll()] == [1]
    with file.open("a") as stream:
        stream.write('ep": 2}\njunk\n{"step": 3}\n')
    assert [line.step for line in tail.poll()] == [2, 3]


def test_a_file_written_anew_is_read_from_its_start(tmp_path: Path) -> None:
    file, tail = tmp_path / "p", ProgressTail(tmp_path / "p")
    file.write_text('{"step": 1}\n{"step": 2}\n')
    tail.poll()
    file.write_text('{"step": 9}\n')
    assert [line.step for line in tail.poll()] == [9]


def test_an_endless_line_is_skipped_without_growing(tmp_path: Path) -> None:
    file, tail = tmp_path / "p", ProgressTail(tmp_path / "p")
    file.write_bytes(b"x" * 1_000_000 + b'\n{"step": 4}\n')
    assert [line.step for _ in range(5) for line in tail.poll()] == [4]


def test_a_pipe_of_that_name_stops_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "p")
    assert ProgressTail(tmp_path / "p").poll() == []
    (tmp_path / "d").mkdir()
    assert ProgressTail(tmp_path / "d").poll() == []
