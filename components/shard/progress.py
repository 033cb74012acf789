"""Tells how far long work is: a log line now and then, and `N/M` in the file that Argo shows as a node's progress."""

import os
import time
from collections.abc import Callable

from components.contracts.units import format_duration, format_size
from components.runtime.log import Log

EVERY_SECONDS = 10.0
_VARIABLES = ("ARGOSY_PROGRESS_FILE", "ARGO_PROGRESS_FILE")


class Progress:
    """Counts units of work done, and bytes."""

    def __init__(
        self, log: Log, what: str, *, total: int | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`what` is plural, for example `shards`; without `total` the end is not known."""
        self._log, self._what, self._total, self._clock = log, what, total, clock
        self._began = self._told = clock()
        self._file = next((os.environ[name] for name in _VARIABLES if os.environ.get(name)), "")
        self.done = self.num_bytes = 0
        self._num_skipped = 0
        if total:
            self._show()

    def add(self, done: int = 1, *, num_bytes: int = 0, was_there: bool = False) -> None:
        """`was_there`: it cost nothing, so it says nothing about the time that is left."""
        self.done += done
        self.num_bytes += num_bytes
        self._num_skipped += done if was_there else 0
        now = self._clock()
        if self._total:
            self._show()
        if now - self._told >= EVERY_SECONDS:
            self._told = now
            self._tell(now - self._began)

    def rate(self) -> str:
        """`12.0 MiB/s`, or empty when there is nothing to say yet."""
        seconds = self._clock() - self._began
        return f"{format_size(self.num_bytes / seconds)}/s" if self.num_bytes >= 1 << 20 and seconds > 0 else ""

    def _tell(self, seconds: float) -> None:
        parts = [f"{self.done} of {self._total} {self._what}" if self._total else f"{self.done} {self._what} so far"]
        if rate := self.rate():
            parts.append(rate)
        made = self.done - self._num_skipped
        if self._total and made:
            left = (self._total - self.done) * seconds / made
            parts.append(f"about {format_duration(round(left) or 1)} left")
        self._log.info(", ".join(parts), done=self.done, total=self._total)

    def _show(self) -> None:
        if not self._file:
            return
        try:
            with open(self._file, "w", encoding="ascii") as file:
                file.write(f"{min(self.done, self._total or 0)}/{self._total}")
        except OSError:
            self._file = ""  # for people only; the work goes on
