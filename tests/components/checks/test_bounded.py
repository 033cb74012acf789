"""Probes that hang, are refused, recover or have bugs."""

import threading
import time

import pytest

from components.checks.bounded import Probe, ask_all
from components.checks.question import Question
from components.contracts.checks import CheckResult, CheckStatus
from components.errors import Transient
from components.storage.base import StorageError


def test_answers_come_in_the_order_of_the_questions(question: Question) -> None:
    def slow() -> CheckResult:
        time.sleep(0.1)
        return question.ok("slow")

    answers = ask_all([Probe(question, slow), Probe(question, lambda: question.ok("quick"))])
    assert [answer.measured for answer in answers] == ["slow", "quick"]


def test_a_probe_that_hangs_is_unknown_and_does_not_hang_the_others(question: Question) -> None:
    never, has_ended = threading.Event(), threading.Event()

    def hang() -> CheckResult:
        never.wait(60)
        has_ended.set()
        return question.ok("too late")

    hung, quick = ask_all([Probe(question, hang), Probe(question, lambda: question.ok("quick"))], deadline_seconds=0.3)
    assert not has_ended.is_set()
    never.set()
    assert (hung.status, hung.measured) == (CheckStatus.UNKNOWN, "no answer within 0.3 s")
    assert hung.blocks
    assert quick.status is CheckStatus.OK


@pytest.mark.parametrize("error", [OSError("no such device"), StorageError("StorageRefused", "no such device")])
def test_a_probe_that_is_refused_is_unknown_with_the_reason(question: Question, error: Exception) -> None:
    def refuse() -> CheckResult:
        raise error

    (answer,) = ask_all([Probe(question, refuse)])
    assert answer.status is CheckStatus.UNKNOWN
    assert "no such device" in answer.measured


def test_a_probe_that_meets_something_transient_is_made_again(question: Question) -> None:
    answers = iter([Transient("StorageNotAnswering", "stale handle"), question.ok("now it works")])

    def flaky() -> CheckResult:
        answer = next(answers)
        if isinstance(answer, Transient):
            raise answer
        return answer

    (answer,) = ask_all([Probe(question, flaky)], deadline_seconds=5)
    assert answer.measured == "now it works"


def test_something_transient_that_stays_is_unknown(question: Question) -> None:
    def stale() -> CheckResult:
        raise Transient("StorageNotAnswering", "stale handle")

    (answer,) = ask_all([Probe(question, stale)], deadline_seconds=1.2)
    assert answer.status is CheckStatus.UNKNOWN
    assert "stale handle" in answer.measured


def test_a_bug_in_a_probe_is_not_an_answer(question: Question) -> None:
    def bug() -> CheckResult:
        raise KeyError("oops")

    with pytest.raises(KeyError):
        ask_all([Probe(question, bug)])
