"""Log lines of a run: merged in the order of time, harmless on a terminal, each given once."""

import json
from pathlib import Path

import pytest

from components.contracts import layout
from components.report.logs import LogFile, LogFilter, LogReader
from components.report.text import plain, plain_line
from components.storage.local import LocalStore
from tests.runs import RUN, at


def a_line(seconds: float, message: str, **fields: object) -> str:
    return json.dumps({"at": at(seconds), "level": "info", "message": message, **fields}) + "\n"


def put_chunk(store: LocalStore, stream: str, chunk: int, *lines: str, generation: int = 0) -> None:
    key = layout.log_chunk_key(RUN, generation=generation, stream=stream, chunk=chunk)
    store.replace(key, "".join(lines).encode())


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "storage")


def messages(reader: LogReader, **options: bool) -> list[str]:
    return [line.message for line in reader.new_lines(**options)]


def test_lines_of_all_streams_come_in_the_order_of_time(store: LocalStore, tmp_path: Path):
    put_chunk(store, "node-0", 0, a_line(3, "agent joined"))
    put_chunk(store, "node-0.rank-0.attempt-0", 0, a_line(4, "step 1"), a_line(8, "step 2"))
    put_chunk(store, "node-0.rank-0.attempt-0", 1, a_line(9, "step 3"))
    put_chunk(store, "node-1.rank-1.attempt-0", 0, a_line(5, "from rank 1"))
    output = tmp_path / "output.log"
    output.write_text(a_line(1, "planned", task="shard-plan") + a_line(6, "still here", task="shard-plan"))

    reader = LogReader(store, RUN, lambda: [LogFile("shard-plan", output)])

    assert messages(reader) == ["planned", "agent joined", "step 1", "from rank 1", "still here", "step 2", "step 3"]


def test_a_second_look_gives_only_what_is_new(store: LocalStore, tmp_path: Path):
    output = tmp_path / "output.log"
    output.write_text(a_line(1, "one"))
    put_chunk(store, "node-0", 0, a_line(2, "two"))
    reader = LogReader(store, RUN, lambda: [LogFile("launch", output)])
    assert messages(reader, final=False) == ["one", "two"]

    with output.open("a") as file:
        file.write(a_line(3, "three") + '{"at": "cut')
    put_chunk(store, "node-0", 1, a_line(4, "four"))

    assert messages(reader, final=False) == ["three", "four"]
    assert messages(reader, final=True) == ['{"at": "cut']


def test_lines_the_launcher_repeats_are_told_once(store: LocalStore, tmp_path: Path):
    put_chunk(store, "node-0.rank-0.attempt-0", 0, a_line(4, "step 1", rank=0))
    output = tmp_path / "output.log"
    output.write_text(a_line(1, "gang created", task="launch") + a_line(4, "step 1", task="launch", rank=0))

    assert messages(LogReader(store, RUN, lambda: [LogFile("launch", output)])) == ["gang created", "step 1"]


def test_what_is_no_json_is_a_message_at_the_time_of_the_line_before(store: LocalStore, tmp_path: Path):
    output = tmp_path / "output.log"
    output.write_bytes(a_line(1, "first").encode() + b"plain words\n\xff\xfe raw\n[1, 2]\n")
    reader = LogReader(store, RUN, lambda: [LogFile("preflight", output)])

    lines = list(reader.new_lines())

    assert [line.message for line in lines] == ["first", "plain words", "�� raw", "[1, 2]"]
    assert {line.at for line in lines} == {at(1)}
    assert {line.task for line in lines} == {"preflight"}


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (LogFilter(), ["planned", "packed", "joined", "rank 0 says", "rank 1 says", "verified"]),
        (LogFilter(stage="shard"), ["planned", "packed"]),
        (LogFilter(stage="shard-task"), ["packed"]),
        (LogFilter(stage="launch"), ["joined", "rank 0 says", "rank 1 says", "verified"]),
        (LogFilter(stage="training-verify"), ["verified"]),
        (LogFilter(rank=1), ["rank 1 says"]),
        (LogFilter(node="1"), ["rank 1 says"]),
        (LogFilter(node="box-0"), ["joined", "rank 0 says", "verified"]),
        (LogFilter(node="node-0", rank=0), ["rank 0 says"]),
        (LogFilter(stage="verify"), []),
    ],
)
def test_lines_are_chosen_by_stage_node_and_rank(store: LocalStore, tmp_path: Path, wanted, expected):
    plan, task = tmp_path / "plan.log", tmp_path / "task.log"
    plan.write_text(a_line(1, "planned", task="shard-plan", node="box"))
    task.write_text(a_line(2, "packed", task="shard-task-0", node="box"))
    put_chunk(store, "node-0", 0, a_line(3, "joined", task="launch", node="box-0"))
    put_chunk(store, "node-0.rank-0.attempt-0", 0, a_line(4, "rank 0 says", task="launch", node="box-0", rank=0))
    put_chunk(store, "node-1.rank-1.attempt-0", 0, a_line(5, "rank 1 says", task="launch", node="box-1", rank=1))
    put_chunk(store, "node-0", 1, a_line(6, "verified", task="training-verify-1", node="box-0"))
    files = [LogFile("shard-plan", plan), LogFile("shard-task-0", task)]

    assert messages(LogReader(store, RUN, lambda: files, wanted)) == expected


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain", "plain"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link", "link"),
        ("a\x08\x00\x7f\x9bb", "ab"),
        ("10%\r20%\r\ndone", "10%\n20%\ndone"),
        ("tab\there", "tab\there"),
        ("\u202eevil\u2066", "evil"),
        ("\x1b(Btext\x1bc", "text"),
        ("\ud800x", "x"),
        ("naïve 数据", "naïve 数据"),
    ],
)
def test_text_of_a_program_cannot_move_the_cursor(raw, shown):
    assert plain(raw) == shown


def test_a_line_stays_one_line():
    assert plain_line("a\n  b\tc\x1b[2J") == "a b c"
