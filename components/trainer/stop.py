"""Notices that the gang is asked to stop: SIGTERM, or the file ARGOSY_STOP."""

import signal
from pathlib import Path
from types import FrameType


class StopFlag:
    """Raised from outside at any moment, acted on by all ranks together at a step boundary."""

    def __init__(self, file: Path | None) -> None:
        self._file, self._signalled = file, False
        signal.signal(signal.SIGTERM, self._on_sigterm)

    def is_up(self) -> bool:
        return self._signalled or (self._file is not None and self._file.exists())

    def _on_sigterm(self, signum: int, frame: FrameType | None) -> None:
        self._signalled = True
