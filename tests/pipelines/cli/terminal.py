"""A pseudo-terminal with the command line on it, driven as a person drives it."""

import fcntl
import os
import pty
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager

from infra.local.run_dir import CHECKOUT
from tests.pipelines.cli.conftest import wait_until


class Terminal:
    """The command line on a terminal of its own, as a person sees and drives it."""

    def __init__(self, *arguments: str) -> None:
        self.master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (40, 120))

        def take_terminal() -> None:
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(
            [sys.executable, str(CHECKOUT / "pipelines/train.py"), *arguments],
            stdin=slave, stdout=slave, stderr=slave, env={**os.environ, "TERM": "xterm-256color"},
            preexec_fn=take_terminal,
        )  # fmt: skip
        os.close(slave)
        os.set_blocking(self.master, False)
        self.seen = ""

    def read(self) -> str:
        try:
            while data := os.read(self.master, 65536):
                self.seen += data.decode(errors="replace")
        except (BlockingIOError, OSError):
            pass  # nothing now, or the other side is closed
        return self.seen

    def wait_for(self, text: str, *, seconds: float = 30) -> None:
        wait_until(lambda: text in self.read(), seconds=seconds)

    def press_ctrl_c(self) -> None:
        os.write(self.master, b"\x03")

    def wait(self, *, seconds: float = 30) -> int:
        wait_until(lambda: (self.read(), self.process.poll())[1] is not None, seconds=seconds)
        return self.process.returncode


@contextmanager
def a_terminal(*arguments: str) -> Iterator[Terminal]:
    terminal = Terminal(*arguments)
    try:
        yield terminal
    finally:
        if terminal.process.poll() is None:
            terminal.process.kill()
            terminal.process.wait()
        os.close(terminal.master)
