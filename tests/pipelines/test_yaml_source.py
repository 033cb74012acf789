"""YAML keeps its places, and the traps of YAML 1.1 do not snap."""

from typing import Any

import pytest

from pipelines.yaml_source import Source, read_yaml


def problems(text: str) -> list[str]:
    return [str(problem) for problem in read_yaml(text, name="run.yaml").problems]


def test_every_value_knows_its_line() -> None:
    source = read_yaml("a: 1\nb:\n  c:\n    - x\n    - y\n", name="run.yaml")

    assert source.data == {"a": 1, "b": {"c": ["x", "y"]}}
    assert source.place_of(("a",)) == "run.yaml:1"
    assert source.place_of(("b", "c")) == "run.yaml:3"
    assert source.place_of(("b", "c", 1)) == "run.yaml:5"


def test_what_is_not_there_has_the_place_of_the_section_around_it() -> None:
    source = read_yaml("a: 1\nb:\n  c: 2\n", name="run.yaml")

    assert source.place_of(("b", "missing")) == "run.yaml:2"
    assert source.place_of(("missing",)) == "run.yaml:1"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("on", True),
        ("3", 3),
        ("-1_000", -1000),
        ("0.5", 0.5),
        ("3e-4", "3e-4"),
        ("010", "010"),
        ("0x1f", "0x1f"),
        ("1:30", "1:30"),
        ("1:30.5", "1:30.5"),
        ("2026-01-01", "2026-01-01"),
        ("~", None),
        ("'3'", "3"),
        ("!!str 3", "3"),
    ],
)
def test_a_scalar_is_what_a_person_takes_it_for(text: str, value: Any) -> None:
    assert read_yaml(f"a: {text}", name="x").data == {"a": value}


def test_a_key_is_the_text_that_is_written() -> None:
    assert read_yaml("on: 1\n1: 2\n", name="x").data == {"on": 1, "1": 2}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1\na: 2\n", "run.yaml:2 a: duplicate key, first on line 1; keep one"),
        ("b:\n  a: 1\n  a: 2\n", "run.yaml:3 b.a: duplicate key, first on line 2; keep one"),
        ("a: [1\nb: 2\n", "run.yaml:2: not valid YAML: "),
        ("a:\n\tb: 1\n", "run.yaml:2: not valid YAML: "),
        ("a: 'x\n", "run.yaml:2: not valid YAML: "),
        ("a: 1\n---\nb: 2\n", "run.yaml:2: not valid YAML: expected a single document"),
        ("a: &x [*x]\n", "run.yaml:1 a[0]: an alias that contains itself"),
        ("a: !!binary aGk=\n", "run.yaml:1 a: the YAML tag tag:yaml.org,2002:binary"),
        ("a: !!python/object:os.system x\n", "run.yaml:1 a: the YAML tag "),
        ("? [1]\n: 2\n", "run.yaml:1: a key that is not plain text"),
        ("a: " + "[" * 500 + "]" * 500, "run.yaml:1 a[0][0]: an alias that contains itself, or very deep nesting"),
        ("a: " + "- " * 5000, "run.yaml:1: not valid YAML: "),
        ("a: \x01\n", "run.yaml: not valid YAML: "),
    ],
)
def test_a_fault_of_the_text_names_its_line(text: str, expected: str) -> None:
    assert problems(text)[0].startswith(expected)


def test_tabs_are_named_as_the_cause() -> None:
    assert problems("a:\n\tb: 1\n")[0].endswith("; indent with spaces, not tabs")


def test_many_faults_of_the_text_are_told_together() -> None:
    assert len(problems("a: 1\na: 2\nb: !!binary aGk=\nb: 1\n")) == 3


def test_aliases_are_values_like_others_and_cannot_explode() -> None:
    assert read_yaml("a: &x {b: 1}\nc: *x\n", name="x").data == {"a": {"b": 1}, "c": {"b": 1}}

    bomb = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40))
    assert any("more than 20000 values" in problem for problem in problems(bomb))


def test_an_override_replaces_a_value_and_its_place() -> None:
    source = read_yaml("a:\n  b: [1, 2]\n", name="run.yaml")

    source.override(("a", "b"), read_yaml("{c: 3}", name="--set a.b"), "--set a.b")

    assert source.data == {"a": {"b": {"c": 3}}}
    assert source.place_of(("a", "b", 0)) == "--set a.b"
    assert source.place_of(("a",)) == "run.yaml:1"


def test_an_override_makes_the_sections_on_its_way() -> None:
    source = Source(data={})

    source.override(("a", "b", "c"), read_yaml("1", name=""), "--set a.b.c")

    assert source.data == {"a": {"b": {"c": 1}}}


def test_an_override_does_not_turn_a_value_into_a_section() -> None:
    source = Source(data={"checkpoint": "none"})

    source.override(("checkpoint", "every_steps"), read_yaml("5", name=""), "--set checkpoint.every_steps")

    assert [str(problem) for problem in source.problems] == [
        "--set checkpoint.every_steps: checkpoint is 'none', not a section; set checkpoint as a whole first"
    ]
