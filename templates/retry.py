"""When Argo tries a stage again: after a passing fault, or when its pod was taken away; never after an answer."""

from hera.workflows import RetryPolicy, RetryStrategy
from hera.workflows import models as m

from components.errors import KILLED_FROM_OUTSIDE, RETRIED_BY_ARGO
from templates.deadlines import BACKOFF_CAP_SECONDS, BACKOFF_FACTOR, BACKOFF_SECONDS

NO_EXIT_CODE = -1
"""What Argo gives as `lastRetry.exitCode` when a pod vanished without one."""


def retry_expression() -> str:
    """True after exit codes that another attempt may cure, after a kill from outside, and after a lost pod.

    A lost pod is Error, or Failed without an exit code, depending on how it was lost.
    """
    codes = sorted({NO_EXIT_CODE, *RETRIED_BY_ARGO, *KILLED_FROM_OUTSIDE})
    # All variables of lastRetry are strings.
    listed = ", ".join(f"'{int(code)}'" for code in codes)
    return f"lastRetry.status == 'Error' || lastRetry.exitCode in [{listed}]"


def retry_strategy(retries: int) -> RetryStrategy:
    """Policy and expression, always both: an expression alone changes the default policy.

    No `maxDuration`: it counts from the first attempt's start and would kill a healthy second attempt.
    """
    return RetryStrategy(
        limit=retries,
        retry_policy=RetryPolicy.always,
        expression=retry_expression(),
        backoff=m.Backoff(
            duration=f"{BACKOFF_SECONDS}s", factor=m.IntOrString(root=BACKOFF_FACTOR), cap=f"{BACKOFF_CAP_SECONDS}s"
        ),
    )
