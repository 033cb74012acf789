"""Questions, their answers, and what a report of answers means for the run."""

from typing import Literal

import pytest

from components.checks.question import Question
from components.contracts.checks import CheckReport, CheckResult, CheckStatus

Scope = Literal["node", "environment", "input"]


def a_question(scope: Scope = "node", *, hard: bool = True) -> Question:
    return Question(name="q", scope=scope, expected="good", origin="a test", remedy="mend it", hard=hard)


def report(*results: CheckResult) -> CheckReport:
    return CheckReport(subject="here", results=results)


def test_an_answer_carries_expectation_origin_and_remedy() -> None:
    result = a_question().about("disk 1").fail("bad")
    assert (result.subject, result.measured, result.expected) == ("disk 1", "bad", "good")
    assert (result.origin, result.remedy) == ("a test", "mend it")


def test_a_good_answer_needs_no_remedy() -> None:
    assert a_question().ok("fine").remedy == ""


def test_a_soft_question_warns_where_a_hard_one_fails() -> None:
    assert a_question(hard=False).fail("bad").status is CheckStatus.WARN
    assert a_question(hard=True).fail("bad").status is CheckStatus.FAIL


@pytest.mark.parametrize(
    ("results", "code"),
    [
        ([], 0),
        ([a_question().ok("")], 0),
        ([a_question().warn("")], 0),
        ([a_question(hard=False).unknown("")], 0),
        ([a_question().unknown("")], 83),
        ([a_question().fail("")], 80),
        ([a_question().fail(""), a_question().unknown("")], 80),
        ([a_question().fail(""), a_question("environment").fail("")], 81),
        ([a_question("environment").unknown(""), a_question("environment").fail("")], 81),
        ([a_question("environment").fail(""), a_question("input").fail("")], 78),
        ([a_question("input").unknown(""), a_question().ok("")], 83),
    ],
)
def test_the_worst_answer_decides_the_exit_code(results: list[CheckResult], code: int) -> None:
    assert report(*results).exit_code() == code
