"""Remembers a SIGTERM that comes while a stage is still being imported: it must not kill without a last word.

The first thing each stage's `__main__` imports and calls, before anything heavy; what comes while Python itself starts
is beyond it. Standard library only.
"""

import signal
from collections.abc import Sequence

_came: list[int] = []


def remember_sigterm(argv: Sequence[str]) -> None:
    """From here on a SIGTERM waits for `told_to_go`; only in a stage, which is given a Spec. What people start ends."""
    if any(argument == "--spec" or argument.startswith("--spec=") for argument in argv):
        signal.signal(signal.SIGTERM, lambda signum, frame: _came.append(signum))


def told_to_go() -> bool:
    """Whether a SIGTERM came that nobody has heard yet; ask once a handler of your own is in place."""
    return bool(_came)
