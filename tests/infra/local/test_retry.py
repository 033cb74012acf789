"""What follows a failed attempt."""

from datetime import timedelta

import pytest

from components.contracts.clock import parse_utc
from infra.local.expressions import parse_retry
from infra.local.retry import Again, End, Wait, after_failure, last_retry
from infra.local.state import AttemptState
from infra.workflow import RetryView

END = parse_utc("2026-11-29T10:00:05.600Z")


def an_attempt(*, phase="Failed", exit_code=75):
    return AttemptState(
        attempt=0, phase=phase, message="why", exit_code=exit_code, started_at="2026-11-29T10:00:00.900Z",
        finished_at="2026-11-29T10:00:05.600Z", pid=1, process_started=1, last_words="", outputs={}, is_lost=False,
        log_path="",
    )  # fmt: skip


def decide(*, charged=1, attempt=None, after=0.0, halted="", **retry):
    view = RetryView.model_validate({"limit": 3, **retry})
    expression = parse_retry(view.expression) if view.expression else None
    now = END + timedelta(seconds=after)
    return after_failure(view, expression, charged=charged, last=attempt or an_attempt(), now=now, halted=halted)


ALWAYS_TRUE = {"expression": "true"}
NEVER = {"expression": "false"}


@pytest.mark.parametrize(
    ("situation", "verdict"),
    [
        ({"charged": 3}, Again()),
        ({"charged": 4}, End("Failed", "No more retries left")),
        ({"limit": 0}, End("Failed", "No more retries left")),
        ({"halted": "Stopped with strategy 'Stop'"}, End("Failed", "Stopped with strategy 'Stop'")),
        # The default policy is OnFailure, but Always when there is an expression.
        ({"attempt": an_attempt(phase="Error")}, End("Error", "why")),
        ({"attempt": an_attempt(phase="Error"), **ALWAYS_TRUE}, Again()),
        # Policy and expression must both allow it.
        ({"retryPolicy": "OnError", **ALWAYS_TRUE}, End("Failed", "why")),
        ({"retryPolicy": "OnError", "attempt": an_attempt(phase="Error"), **ALWAYS_TRUE}, Again()),
        ({"retryPolicy": "Always", **NEVER}, End("Failed", "retryStrategy.expression evaluated to false")),
        # The limit is looked at before the expression, the policy before the limit.
        ({"charged": 4, **NEVER}, End("Failed", "No more retries left")),
        ({"charged": 4, "retryPolicy": "OnError"}, End("Failed", "why")),
        ({"expression": "asInt(lastRetry.message) == 1"}, End("Error", "asInt('why'): not a whole number")),
    ],
)
def test_argos_questions_in_argos_order(situation, verdict):
    assert decide(**situation) == verdict


BACKOFF = {"duration": "3s", "factor": 3, "cap": "20s"}


@pytest.mark.parametrize(
    ("charged", "seconds"), [(1, 3), (2, 9), (3, 20)], ids=["duration", "times factor", "at most cap"]
)
def test_the_wait_grows_by_factor_up_to_cap(charged, seconds):
    just_before = decide(charged=charged, after=seconds - 0.001, backoff=BACKOFF)

    assert just_before == Wait(END + timedelta(seconds=seconds), f"Backoff for {seconds}s")
    assert decide(charged=charged, after=seconds, backoff=BACKOFF) == Again()


def test_the_wait_comes_before_a_refusal_but_not_before_exhaustion():
    assert isinstance(decide(backoff=BACKOFF, **NEVER), Wait)
    assert isinstance(decide(backoff=BACKOFF, retryPolicy="OnError"), Wait)
    assert decide(charged=4, backoff=BACKOFF) == End("Failed", "No more retries left")


def test_what_an_expression_sees_are_strings_and_whole_seconds():
    assert last_retry(an_attempt()) == {"exitCode": "75", "status": "Failed", "duration": "5", "message": "why"}
    assert last_retry(an_attempt(exit_code=None))["exitCode"] == "-1"
