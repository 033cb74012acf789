"""The checkpoint a START resumes from: brought to this node before its ranks start, kept until another one is."""

import shutil
import threading

from components.agent.messages import Trouble
from components.agent.run_context import RunContext
from components.errors import ArgosyError
from components.ledger.fetch import fetch_checkpoint


class NodeResume:
    """For all STARTs of this node."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._folder = context.workdir / "resume"
        self._kept: str | None = None
        self._lock = threading.Lock()

    def in_place(self, folder: str | None) -> str | None:
        """Where it lies if nothing has to be done; empty for a fresh start, None when it must be fetched."""
        if folder is None:
            return ""
        path = self._context.store.local_path(folder)
        return None if path is None else str(path)

    def fetch(self, folder: str, called_off: threading.Event) -> str | Trouble:
        """Bring it here, for a worker thread: its path, or why that did not work."""
        context = self._context
        try:
            with self._lock:  # an earlier START's, called off, may still be ending
                if folder != self._kept:
                    shutil.rmtree(self._folder, ignore_errors=True)
                self._kept = folder
                return str(fetch_checkpoint(context.store, folder=folder, into=self._folder, cancelled=called_off))
        except (ArgosyError, OSError) as error:
            return Trouble.of(error)

    def close(self) -> None:
        """No rank is left."""
        shutil.rmtree(self._folder, ignore_errors=True)
