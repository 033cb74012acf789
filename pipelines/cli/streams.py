"""Standard input, output and error: open at the start, and silent once nobody or nothing takes what is printed."""

import os
import sys


def open_standard_streams() -> None:
    """Open what the caller closed (`>&-`): the next file opened would get its number, and what is printed with it."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number, which is this one
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8")
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8")


def discard_output() -> None:
    """From here on stdout goes nowhere: nothing may be flushed into a closed pipe or a full disk at exit."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)
