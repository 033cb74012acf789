"""What is retried: the table of exit codes decides, and pods that were lost."""

import pytest

from components.errors import ExitCode
from infra.local.expressions import parse_retry
from templates.retry import retry_expression, retry_strategy

RETRIED = parse_retry(retry_expression())


@pytest.mark.parametrize("code", [ExitCode.TRANSIENT, ExitCode.NODE_UNFIT, ExitCode.INTERRUPTED, 137, 143, -1])
def test_a_passing_fault_or_a_kill_from_outside_is_retried(code: int) -> None:
    assert RETRIED.allows({"status": "Failed", "exitCode": str(int(code)), "duration": "1", "message": ""})


@pytest.mark.parametrize("code", [70, 78, 81, 83, 90, 91, 92, 93, 94, 95, 96, 1, 127])
def test_an_answer_is_never_retried(code: int) -> None:
    assert not RETRIED.allows({"status": "Failed", "exitCode": str(code), "duration": "1", "message": ""})


def test_a_lost_pod_is_retried_whatever_its_exit_code() -> None:
    assert RETRIED.allows({"status": "Error", "exitCode": "-1", "duration": "1", "message": "pod deleted"})


def test_policy_expression_and_backoff_are_always_set_and_nothing_kills_a_later_attempt() -> None:
    built = retry_strategy(3)

    assert built.retry_policy is not None
    assert built.expression is not None
    assert built.backoff is not None
    assert built.backoff.max_duration is None
