"""What follows a failed attempt: another one, a wait, or the end of the node. Argo's order of questions, odd ones too.

1. stopped, or past the workflow's deadline     ends
2. within the limit                             waits out the backoff first, even when 3 or 5 will refuse
3. the policy covers the phase                  else ends with the attempt's message
4. limit N: N + 1 attempts were made            ends, "No more retries left"; without the wait of 2
5. the expression holds                         else ends, "retryStrategy.expression evaluated to false"
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from components.contracts.clock import parse_utc
from components.contracts.units import format_duration
from infra.local.events import Phase
from infra.local.expressions import ExpressionError, RetryExpression
from infra.local.state import AttemptState
from infra.workflow import RetryView

NO_EXIT_CODE = "-1"


@dataclass(frozen=True)
class Again:
    """Another attempt, now."""


@dataclass(frozen=True)
class Wait:
    """Ask again at `until`."""

    until: datetime
    message: str


@dataclass(frozen=True)
class End:
    """The node is over."""

    phase: Phase
    message: str


def after_failure(
    retry: RetryView,
    expression: RetryExpression | None,
    *,
    charged: int,
    last: AttemptState,
    now: datetime,
    halted: str,
) -> Again | Wait | End:
    """What follows `last`, which failed. `charged` attempts count so far; `halted` says why no retry is allowed."""
    if halted:
        return End(last.phase, halted)
    if retry.backoff is not None and charged <= retry.limit and last.finished_at is not None:
        wait_seconds = retry.backoff.wait_seconds(charged - 1)
        until = parse_utc(last.finished_at) + timedelta(seconds=wait_seconds)
        if now < until:
            return Wait(until, f"Backoff for {format_duration(wait_seconds)}")
    if last.phase not in _COVERED[policy_of(retry)]:
        return End(last.phase, last.message)
    if charged > retry.limit:
        return End(last.phase, "No more retries left")
    if expression is not None:
        try:
            if not expression.allows(last_retry(last)):
                return End(last.phase, "retryStrategy.expression evaluated to false")
        except ExpressionError as error:
            return End("Error", str(error))
    return Again()


def policy_of(retry: RetryView) -> str:
    """The policy in force: OnFailure, but Always when there is an expression."""
    return retry.retry_policy or ("Always" if retry.expression else "OnFailure")


def last_retry(last: AttemptState) -> Mapping[str, str]:
    """`lastRetry.*`, all strings. Argo's times are whole seconds, so is the duration."""
    started, finished = parse_utc(last.started_at), parse_utc(last.finished_at or last.started_at)
    return {
        "exitCode": NO_EXIT_CODE if last.exit_code is None else str(last.exit_code),
        "status": last.phase,
        "duration": str(int(finished.timestamp()) - int(started.timestamp())),
        "message": last.message,
    }


_COVERED: Mapping[str, tuple[Phase, ...]] = {
    "Always": ("Failed", "Error"),
    "OnFailure": ("Failed",),
    "OnError": ("Error",),
}
