"""`depends` and retry expressions: what they say, and what is refused before anything runs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.local.expressions import TASK_RESULTS, ExpressionError, parse_depends, parse_retry

LAST = {"exitCode": "75", "status": "Failed", "duration": "12", "message": "main: Error (exit code 75): pod deleted"}


@pytest.mark.parametrize(
    ("text", "results", "holds"),
    [
        ("a", {"a": "Succeeded"}, True),
        ("a", {"a": "Skipped"}, True),
        ("a", {"a": "Daemoned"}, True),
        ("a", {"a": "Failed"}, False),
        ("a", {"a": "Omitted"}, False),
        ("a.Failed || a.Errored", {"a": "Errored"}, True),
        ("a && b", {"a": "Succeeded", "b": "Failed"}, False),
        ("a || b && c", {"a": "Succeeded", "b": "Failed", "c": "Failed"}, True),
        ("(a || b) && c", {"a": "Succeeded", "b": "Failed", "c": "Failed"}, False),
        ("!a.Succeeded", {"a": "Failed"}, True),
        ("!(a && b)", {"a": "Succeeded", "b": "Succeeded"}, False),
        ("shard-merge.Succeeded&&pre-flight", {"shard-merge": "Succeeded", "pre-flight": "Succeeded"}, True),
    ],
)
def test_depends_holds_as_argo_reads_it(text, results, holds):
    depends = parse_depends(text)

    assert depends.holds({task: frozenset([result]) for task, result in results.items()}) is holds
    assert set(depends.tasks) == set(results)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "a task is missing at column 1"),
        ("a &&", "a task is missing at column 5"),
        ("a b", "nothing more is expected at column 3"),
        ("(a", "')' is missing at column 3"),
        ("a)", "nothing more is expected at column 2"),
        ("a & b", "cannot read '& b' at column 3"),
        ("a.Success", "'Success' is no task result"),
        ("a == b", "cannot read '== b' at column 3"),
        ("a.", "cannot read '.' at column 2"),
    ],
)
def test_a_depends_that_cannot_be_read_says_where(text, reason):
    with pytest.raises(ExpressionError) as caught:
        parse_depends(text)

    assert reason in str(caught.value)


_TASKS = st.sampled_from(["a", "b-1", "c"])
_LEAVES = st.tuples(_TASKS, st.sampled_from(["", *TASK_RESULTS]))
_TREES = st.recursive(
    _LEAVES.map(lambda leaf: ("leaf", leaf)),
    lambda inner: st.one_of(
        inner.map(lambda tree: ("!", tree)),
        st.tuples(st.sampled_from(["&&", "||"]), inner, inner),
    ),
    max_leaves=8,
)


def _text(tree):
    if tree[0] == "leaf":
        return ".".join(part for part in tree[1] if part)
    if tree[0] == "!":
        return f"!({_text(tree[1])})"
    return f"({_text(tree[1])}) {tree[0]} ({_text(tree[2])})"


def _truth(tree, results):
    if tree[0] == "leaf":
        task, result = tree[1]
        return results[task] in ([result] if result else ["Succeeded", "Skipped", "Daemoned"])
    if tree[0] == "!":
        return not _truth(tree[1], results)
    sides = (_truth(tree[1], results), _truth(tree[2], results))
    return all(sides) if tree[0] == "&&" else any(sides)


@given(_TREES, st.fixed_dictionaries({name: st.sampled_from(TASK_RESULTS) for name in ("a", "b-1", "c")}))
def test_any_depends_means_what_its_tree_means(tree, results):
    depends = parse_depends(_text(tree))

    assert depends.holds({name: frozenset([result]) for name, result in results.items()}) == _truth(tree, results)


@given(st.text(alphabet="ab.-&|!() SF", max_size=20))
def test_no_text_makes_the_parser_fail_in_another_way(text):
    try:
        parse_depends(text)
    except ExpressionError:
        return


@pytest.mark.parametrize(
    ("text", "allows"),
    [
        ("lastRetry.status == 'Error' || lastRetry.exitCode in ['-1', '75', '80', '84', '137', '143']", True),
        ("asInt(lastRetry.exitCode) == 75", True),
        ("asInt(lastRetry.exitCode) in [80, 84]", False),
        ("asInt(lastRetry.exitCode) in [-1, 75]", True),
        ('lastRetry.status != "Error" && !(asInt(lastRetry.exitCode) < 75)', True),
        ("asInt(lastRetry.duration) >= 12 && asInt(lastRetry.duration) <= 12", True),
        ("lastRetry.message contains 'pod deleted'", True),
        ('!(lastRetry.message contains "it\'s")', True),
        ("true && !false", True),
    ],
)
def test_a_retry_expression_decides_over_the_last_attempt(text, allows):
    assert parse_retry(text).allows(LAST) is allows


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("lastRetry.exitCode == 75", "write asInt(…) around the string"),
        ("lastRetry.exitCode in [75]", "write asInt(…) around the string"),
        ("lastRetry.exitCode", "a comparison is missing"),
        ("lastRetry.code == '1'", "'lastRetry.code' is not known"),
        ("sprig.trim(lastRetry.message) == ''", "'sprig.trim' is not known"),
        ("lastRetry.exitCode in [75, '80']", "a list holds numbers only or strings only"),
        ("asInt([1]) == 1", "asInt takes a string"),
        ("asInt(lastRetry.exitCode) + 1 == 2", "cannot read '+ 1 == 2'"),
        ("lastRetry.status == 'Error' and true", "nothing more is expected"),
        ("lastRetry.status = 'Error'", "cannot read \"= 'Error'\""),
    ],
)
def test_a_retry_expression_that_argo_would_refuse_at_run_time_is_refused_when_read(text, reason):
    with pytest.raises(ExpressionError) as caught:
        parse_retry(text)

    assert reason in str(caught.value)


def test_a_string_that_is_no_number_is_found_when_it_is_needed():
    expression = parse_retry("asInt(lastRetry.message) == 1")

    with pytest.raises(ExpressionError, match="not a whole number"):
        expression.allows(LAST)
