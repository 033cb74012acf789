"""A question a check asks, before it is answered: what is expected, why, and what to do when it is not so."""

from dataclasses import dataclass, replace
from typing import Literal

from components.contracts.checks import CheckResult, CheckStatus
from components.errors import ArgosyError, ExitCode


@dataclass(frozen=True, kw_only=True)
class Question:
    """Everything of a CheckResult that is known before measuring. Field meanings are those of CheckResult."""

    name: str
    scope: Literal["node", "environment", "input"]
    expected: str
    origin: str
    remedy: str
    hard: bool = True
    subject: str = ""

    def about(self, subject: str) -> "Question":
        """The same question about another node, path or port."""
        return replace(self, subject=subject)

    def ok(self, measured: str) -> CheckResult:
        return self._answer(CheckStatus.OK, measured, "")

    def warn(self, measured: str, remedy: str = "") -> CheckResult:
        return self._answer(CheckStatus.WARN, measured, remedy or self.remedy)

    def fail(self, measured: str, remedy: str = "") -> CheckResult:
        """Not as expected; a soft question is answered with a warning instead."""
        return self._answer(CheckStatus.FAIL if self.hard else CheckStatus.WARN, measured, remedy or self.remedy)

    def refused(self, error: ArgosyError) -> CheckResult:
        """`fail` by what an error of ours says. One of the description's (78) makes that the fault."""
        is_misnamed = error.exit_code is ExitCode.BAD_INPUT
        question = replace(self, scope="input") if is_misnamed else self
        return question.fail(error.seen, error.fix).model_copy(update={"reason": error.reason})

    def unknown(self, measured: str, remedy: str = "", *, reason: str = "") -> CheckResult:
        """Could not be measured: `measured` says why. On a hard question this stops the run."""
        answer = self._answer(CheckStatus.UNKNOWN, measured, remedy or self.remedy)
        return answer.model_copy(update={"reason": reason}) if reason else answer

    def _answer(self, status: CheckStatus, measured: str, remedy: str) -> CheckResult:
        return CheckResult(
            name=self.name, status=status, hard=self.hard, scope=self.scope, subject=self.subject, measured=measured,
            expected=self.expected, origin=self.origin, remedy=remedy,
        )  # fmt: skip
