"""One value, one spelling; and nothing in it that Argo would substitute."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.contracts.canonical import canonical_json, digest_of

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(JSON)
def test_what_is_written_reads_back_and_holds_no_argo_tag(value: object) -> None:
    text = canonical_json(value)

    assert json.loads(text) == value
    assert "{{" not in text
    assert text.isascii()


def test_user_text_with_a_tag_is_escaped() -> None:
    assert canonical_json({"command": ["echo", "{{x}}"]}) == '{"command":["echo","\\u007b\\u007bx\\u007d\\u007d"]}'


def test_the_order_of_keys_does_not_matter() -> None:
    assert digest_of({"a": 1, "b": 2}) == digest_of({"b": 2, "a": 1})


def test_not_a_number_is_refused() -> None:
    with pytest.raises(ValueError, match="Out of range float"):
        canonical_json(float("nan"))
