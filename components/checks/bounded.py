"""Asks many questions at once, each with a deadline: a probe that hangs is an answer too, `unknown`."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from components.checks.question import Question
from components.contracts.checks import CheckResult
from components.errors import ArgosyError

DEADLINE_SECONDS = 10.0
"""Long enough for a slow file server, short enough that a machine with a hung one is named within a start limit."""


@dataclass(frozen=True)
class Probe:
    """A question and the measurement that answers it."""

    question: Question
    measure: Callable[[], CheckResult]


def ask_all(probes: Sequence[Probe], *, deadline_seconds: float = DEADLINE_SECONDS) -> tuple[CheckResult, ...]:
    """Every probe's answer, in the order given, within `deadline_seconds` altogether.

    A probe the outside world refuses (OSError, ArgosyError) and one that does not answer are `unknown`; a bug in a
    probe is raised here.
    """
    # Daemon threads, because a probe stuck in the kernel (a dead NFS server) can be neither stopped nor waited for.
    runs = [_Run(probe) for probe in probes]
    for run in runs:
        run.thread.start()
    end = time.monotonic() + deadline_seconds
    return tuple(run.answer(end, deadline_seconds) for run in runs)


class _Run:
    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._result: CheckResult | None = None
        self._bug: BaseException | None = None
        self.thread = threading.Thread(target=self._measure, name=f"check-{probe.question.name}", daemon=True)

    def _measure(self) -> None:
        try:
            self._result = self._probe.measure()
        except (OSError, ArgosyError) as error:
            self._result = self._probe.question.unknown(f"could not be measured: {error}")
        except BaseException as error:
            self._bug = error

    def answer(self, end: float, deadline_seconds: float) -> CheckResult:
        self.thread.join(max(0.0, end - time.monotonic()))
        if self._bug is not None:
            raise self._bug
        if self._result is not None:
            return self._result
        return self._probe.question.unknown(f"no answer within {deadline_seconds:g} s")
