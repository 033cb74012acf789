"""Where two objects differ, as people are told it."""

from typing import Any

import pytest

from pipelines.renders_diff import differences


def told(was: Any, now: Any) -> list[str]:
    return [str(item) for item in differences(was, now)]


@pytest.mark.parametrize(
    ("was", "now", "expected"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 2}, ["a: 1 → 2"]),
        ({"a": 1}, {"b": 1}, ["a: 1 → absent", "b: absent → 1"]),
        ({"a": None}, {}, ["a: null → absent"]),
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3, 4]}}, ["a.b[1]: 2 → 3", "a.b[2]: absent → 4"]),
        ({"a": True}, {"a": 1}, ["a: true → 1"]),
        ({"a": "1"}, {"a": 1}, ['a: "1" → 1']),
        (1, 2, ["the whole: 1 → 2"]),
    ],
)
def test_each_field_that_differs_is_told(was: Any, now: Any, expected: list[str]) -> None:
    assert told(was, now) == expected


def test_named_things_are_compared_by_name_and_their_order_is_told() -> None:
    one, two, other = {"name": "one", "x": 1}, {"name": "two", "x": 1}, {"name": "two", "x": 2}

    assert told([one, two], [two, one]) == ["the whole: order one, two → order two, one"]
    assert told({"a": [one, two]}, {"a": [one, other]}) == ["a[two].x: 1 → 2"]
    assert told({"a": [one]}, {"a": [two]}) == ['a[one]: {"name": "one", "x": 1} → absent',
                                                'a[two]: absent → {"name": "two", "x": 1}']  # fmt: skip


def test_a_command_line_is_compared_by_option_and_a_spec_by_field() -> None:
    was = ["plan", "--spec", '{"a":{"b":1}}', "--input", "x={{x}}", "--run", "r"]
    now = ["plan", "--spec", '{"a":{"b":2}}', "--input", "x={{y}}", "--run", "r", "--commit", "c"]

    assert told({"args": was}, {"args": now}) == [
        "args.--spec.a.b: 1 → 2", 'args.--input x: "{{x}}" → "{{y}}"', 'args.--commit: absent → "c"',
    ]  # fmt: skip


def test_a_spec_that_only_looks_different_is_told_as_it_stands() -> None:
    assert told('{"a":1}', '{"a": 1}') == ['the whole: "{\\"a\\":1}" → "{\\"a\\": 1}"']


def test_of_a_long_text_the_part_that_differs_is_shown() -> None:
    (line,) = told({"a": "x" * 5000 + "one" + "y" * 5000}, {"a": "x" * 5000 + "two" + "y" * 5000})

    assert '…"' in line
    assert "xone" in line.partition(" → ")[0]
    assert "xtwo" in line.partition(" → ")[2]
    assert len(line) < 500
