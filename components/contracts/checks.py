"""The result of one check and the report of many: written by preflight and agents, read by the report and `why`."""

from enum import StrEnum
from typing import Literal

from components.contracts.document import Document
from components.errors import ExitCode


class CheckStatus(StrEnum):
    """ok: as expected; warn: worth knowing; fail: not fit; unknown: could not be measured, which fails a hard check."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    UNKNOWN = "unknown"


class CheckResult(Document):
    """One question, its answer and what the answer rests on."""

    name: str
    """snake_case, stable: tools match on it."""
    status: CheckStatus
    hard: bool
    """A hard check that fails or stays unknown stops the run; a soft one is reported."""
    scope: Literal["node", "environment", "input"]
    """Whose fault a failure is: another node may pass (80), none will (81), or the run description is wrong (78)."""
    subject: str = ""
    """Node, path or port that was looked at."""
    measured: str
    expected: str
    origin: str
    """Where the expectation comes from: a field of the run description, the data set, a measured default."""
    remedy: str = ""
    reason: str = ""
    """CamelCase and stable, where what was looked at has a name for its refusal: CredentialsRefused."""

    @property
    def blocks(self) -> bool:
        return self.hard and self.status in (CheckStatus.FAIL, CheckStatus.UNKNOWN)


class CheckReport(Document):
    """All checks of the preflight stage, or of one node."""

    kind: Literal["check-report"] = "check-report"
    version: Literal[1] = 1
    subject: str
    """`preflight`, or the node."""
    results: tuple[CheckResult, ...]

    @property
    def blocking(self) -> tuple[CheckResult, ...]:
        return tuple(result for result in self.results if result.blocks)

    @property
    def by_weight(self) -> tuple[CheckResult, ...]:
        """Those that block: what decides the exit code first, what could not be measured, perhaps for that, last."""
        weights = {"input": 0, "environment": 1, "node": 2}
        return tuple(sorted(
            self.blocking, key=lambda result: (result.status is CheckStatus.UNKNOWN, weights[result.scope])
        ))  # fmt: skip

    def exit_code(self) -> ExitCode:
        """0, or the code of the worst failure: 78 input, 81 environment, 80 this node; 83 when some are only unknown.

        Input comes first: with a wrong description no machine is fit, so nothing else is worth mending before it.
        """
        failed = {result.scope for result in self.blocking if result.status is CheckStatus.FAIL}
        if "input" in failed:
            return ExitCode.BAD_INPUT
        if "environment" in failed:
            return ExitCode.ENVIRONMENT_UNFIT
        if failed:
            return ExitCode.NODE_UNFIT
        return ExitCode.STOPPED if self.blocking else ExitCode.OK
