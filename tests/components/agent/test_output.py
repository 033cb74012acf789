"""Whatever a rank writes becomes lines that are complete, whole JSON and harmless to a terminal."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.agent.output import MAX_LINE_BYTES, LineCutter, RankOutput, safe_text


def cut(*pieces: bytes) -> list[bytes]:
    cutter = LineCutter()
    return [line for piece in pieces for line in cutter.feed(piece)] + cutter.end()


@pytest.mark.parametrize(
    ("pieces", "lines"),
    [
        ([b"one\ntwo\n"], [b"one", b"two"]),
        ([b"on", b"e\ntw", b"o"], [b"one", b"two"]),
        ([b"one\r", b"\ntwo\r\n"], [b"one", b"two"]),
        ([b"10%\r20%\r", b"30%"], [b"10%", b"20%", b"30%"]),
        ([b"\n\n"], [b"", b""]),
        ([b""], []),
    ],
)
def test_lines_end_where_a_terminal_would_end_them(pieces: list[bytes], lines: list[bytes]) -> None:
    assert cut(*pieces) == lines


def test_an_endless_line_is_cut_and_complete() -> None:
    lines = cut(*[b"x" * 10_000] * 10)
    assert [len(line) for line in lines] == [16384] * 6 + [1696]


def test_a_cut_never_splits_a_character() -> None:
    lines = cut(("é" * MAX_LINE_BYTES).encode())
    assert "".join(line.decode() for line in lines) == "é" * MAX_LINE_BYTES
    lines = cut(b"x" + ("é" * MAX_LINE_BYTES).encode())
    assert "".join(line.decode() for line in lines) == "x" + "é" * MAX_LINE_BYTES


@given(st.binary(max_size=200), st.integers(0, 200))
def test_no_byte_is_lost_wherever_the_pieces_end(data: bytes, at: int) -> None:
    assert b"\n".join(cut(data[:at], data[at:])) == b"\n".join(cut(data))


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"plain \t text", "plain \t text"),
        ("größe ✓".encode(), "größe ✓"),
        (b"\x1b[2J\x07", "\\x1b[2J\\x07"),
        (b"\xff\xfe", "\\xff\\xfe"),
        ("a\u202eb\u2028c\x85d".encode(), "a\\u202eb\\u2028c\\x85d"),
        (b"{{workflow.name}}", "{{workflow.name}}"),
    ],
)
def test_what_a_terminal_would_obey_is_spelled_out(raw: bytes, shown: str) -> None:
    assert safe_text(raw) == shown


@given(st.binary(max_size=300))
def test_every_line_is_one_json_object_with_its_fields(data: bytes) -> None:
    written = bytearray()
    output = RankOutput(fields={"rank": 3, "node": "n"}, write=written.extend)
    output.feed("stdout", data, at="T")
    output.end(at="T")
    for line in written.decode().splitlines():
        fields = json.loads(line)
        assert (fields["rank"], fields["node"], fields["stream"]) == (3, "n", "stdout")
        assert all(
            character.isprintable() or character == "\t" or character > "\xa0" for character in fields["message"]
        )


def logged(text: str) -> dict[str, object]:
    written = bytearray()
    RankOutput(fields={"rank": 0}, write=written.extend).feed("stderr", text.encode() + b"\n", at="T")
    fields: dict[str, object] = json.loads(written)
    return fields


def test_a_log_line_of_the_program_keeps_what_is_its_own() -> None:
    line = logged('{"message": "hi\\u001b", "level": "error", "rank": 7, "lr": 1e-3, "at": "2026", "x": NaN, "y": [1]}')
    assert line == {
        "at": "2026", "level": "error", "message": "hi\\x1b", "lr": 0.001, "x": "NaN", "y": "[1]", "stream": "stderr",
        "rank": 0,
    }  # fmt: skip


@pytest.mark.parametrize("text", ['{"message": 3}', '{"a": 1}', '{"message": "cut', '{"a": ' + "[" * 9000])
def test_json_that_is_no_log_line_is_text(text: str) -> None:
    assert str(logged(text)["message"]).startswith(text[:1000])


def test_the_last_words_include_a_line_without_end() -> None:
    output = RankOutput(fields={}, write=lambda _: None)
    output.feed("stdout", b"".join(b"line %d\n" % number for number in range(30)), at="T")
    output.feed("stderr", b"about to " + b"x" * 1000, at="T")
    last = output.last_lines()
    assert len(last) == 20
    assert last[0] == "line 11"
    assert last[-1] == "about to " + "x" * 491
