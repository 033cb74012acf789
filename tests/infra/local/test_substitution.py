"""Tags in a manifest."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.local.expansion import expand, expand_variables
from infra.local.substitution import SubstitutionError, substitute, tags


@pytest.mark.parametrize(
    ("value", "scope", "result"),
    [
        ("{{a}}", {"a": "1"}, "1"),
        ("x{{ a }}{{a}}y", {"a": "1"}, "x11y"),
        (["{{a}}", {"k": "{{b.c}}"}], {"a": "1", "b.c": "2"}, ["1", {"k": "2"}]),
        ("{{unknown}}", {}, "{{unknown}}"),
        ("{{a}}", {"a": '"quoted"\n\\ and ünïcode'}, '"quoted"\n\\ and ünïcode'),
        ("{{a}}", {"a": "{{b}}", "b": "2"}, "{{b}}"),
    ],
)
def test_known_tags_are_replaced_and_others_stay(value, scope, result):
    assert substitute(value, scope) == result


def test_an_unknown_tag_with_a_strict_prefix_is_an_error():
    with pytest.raises(SubstitutionError, match=r"failed to resolve \{\{tasks\.a\.outputs\.parameters\.x\}\}"):
        substitute("{{tasks.a.outputs.parameters.x}}", {}, strict=("tasks",))
    assert substitute("{{tasksa.x}}", {}, strict=("tasks",)) == "{{tasksa.x}}"


def test_a_value_with_control_characters_is_refused_as_argo_does():
    with pytest.raises(SubstitutionError, match="control characters"):
        substitute("{{a}}", {"a": "\x1b[31m"})


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"])))
def test_a_value_never_breaks_out_of_its_string(value):
    assert substitute({"k": ["<{{a}}>", "rest"]}, {"a": value}) == {"k": [f"<{value}>", "rest"]}


def test_tags_come_with_the_path_of_their_string():
    assert list(tags({"args": ["x", "{{a}}{{ b }}"], "env": {"k": "{{c}}"}})) == [
        ("args[1]", "a"), ("args[1]", "b"), ("env.k", "c"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("a$(A)b", "avb"), ("$(B)", "$(B)"), ("$$", "$"), ("$$(A)", "$(A)"), ("$$$(A)", "$v"), ("$A", "$A"),
        ("$(A", "$(A"), ("x$", "x$"), ("$((1 + 2))", "$((1 + 2))"), ("$()", "$()"),
    ],
)  # fmt: skip
def test_variables_are_expanded_as_kubernetes_does_it(text: str, expanded: str) -> None:
    assert expand(text, {"A": "v"}) == expanded


def test_a_variable_may_name_those_before_it() -> None:
    assert expand_variables([("A", "1"), ("B", "$(A)$(C)"), ("C", "2")]) == {"A": "1", "B": "1$(C)", "C": "2"}
