"""Asks many questions at once, each with a deadline: a probe that hangs is an answer too, `unknown`."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from components.checks.question import Question
from components.contracts.checks import CheckResult
from components.errors import ArgosyError, Transient

DEADLINE_SECONDS = 10.0
"""Long enough for a slow file server, short enough that a machine with a hung one is named within a start limit."""

_PAUSE_SECONDS = 0.5


@dataclass(frozen=True)
class Probe:
    """A question and the measurement that answers it."""

    question: Question
    measure: Callable[[], CheckResult]


def ask_all(probes: Sequence[Probe], *, deadline_seconds: float = DEADLINE_SECONDS) -> tuple[CheckResult, ...]:
    """Every probe's answer, in the order given, within `deadline_seconds` altogether.

    A probe that meets something transient is made again while there is time. One the outside world refuses (OSError,
    ArgosyError) and one that does not answer are `unknown`; a bug in a probe is raised here.
    """
    # Daemon threads, because a probe stuck in the kernel (a dead NFS server) can be neither stopped nor waited for.
    end = time.monotonic() + deadline_seconds
    runs = [_Run(probe, end) for probe in probes]
    for run in runs:
        run.thread.start()
    return tuple(run.answer(deadline_seconds) for run in runs)


class _Run:
    def __init__(self, probe: Probe, end: float) -> None:
        self._probe, self._end = probe, end
        self._result: CheckResult | None = None
        self._bug: BaseException | None = None
        self._so_far = ""
        self.thread = threading.Thread(target=self._measure, name=f"check-{probe.question.name}", daemon=True)

    def _measure(self) -> None:
        try:
            while True:
                try:
                    self._result = self._probe.measure()
                    return
                except Transient as error:
                    self._so_far = f", only: {error}"
                    if time.monotonic() + 2 * _PAUSE_SECONDS > self._end:
                        raise
                    time.sleep(_PAUSE_SECONDS)
        except (OSError, ArgosyError) as error:
            reason = error.reason if isinstance(error, ArgosyError) else ""
            self._result = self._probe.question.unknown(f"could not be measured: {error}", reason=reason)
        except BaseException as error:
            self._bug = error

    def answer(self, deadline_seconds: float) -> CheckResult:
        self.thread.join(max(0.0, self._end - time.monotonic()))
        if self._bug is not None:
            raise self._bug
        if self._result is not None:
            return self._result
        return self._probe.question.unknown(f"no answer within {deadline_seconds:g} s{self._so_far}")
