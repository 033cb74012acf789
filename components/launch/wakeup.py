"""Waiting that a signal ends at once, and the memory of a SIGTERM."""

import contextlib
import os
import select
import signal

from components.runtime.early import told_to_go


class Wakeup:
    """Sleeps in `wait` until a child ends, SIGTERM or SIGINT comes, somebody nudges it, or the time is over.

    One a process.
    """

    def __init__(self) -> None:
        self.told_to_go = False
        """A SIGTERM or SIGINT came; later ones change nothing."""
        self._read_end, self._write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, self._remember)
        signal.signal(signal.SIGINT, self._remember)
        signal.signal(signal.SIGCHLD, lambda signum, frame: None)  # only a handled signal reaches the wake-up pipe
        if told_to_go():  # while this process was still importing
            self.told_to_go = True
            self.nudge()

    def wait(self, seconds: float) -> None:
        """Return after `seconds`, or earlier when something happened."""
        if self._has_news(seconds):
            try:
                os.read(self._read_end, 4096)
            except BlockingIOError:
                return

    def nudge(self) -> None:
        """Something happened that another thread learned of."""
        with contextlib.suppress(BlockingIOError):  # full: then it will wake up anyway
            os.write(self._write_end, b"\0")

    def _has_news(self, seconds: float) -> bool:
        return bool(select.select([self._read_end], [], [], max(0.0, seconds))[0])

    def _remember(self, signum: int, frame: object) -> None:
        self.told_to_go = True
