"""Log lines: one JSON object a line, each saying whose it is."""

import json
import sys
import threading
from collections.abc import Mapping
from typing import Any, TextIO

from components.contracts.clock import now_text


class Log:
    """Writes JSON lines to `stream`; safe to use from several threads.

    Every line carries `at`, `level`, `message` and the bound fields: experiment, workflow, task, node, rank, image.
    """

    def __init__(self, fields: Mapping[str, Any], stream: TextIO | None = None) -> None:
        self.fields = {key: value for key, value in fields.items() if value is not None}
        self._stream = stream if stream is not None else sys.stdout
        self._lock = threading.Lock()

    def bind(self, **fields: Any) -> "Log":
        """The same log with more fields on every line."""
        bound = Log({**self.fields, **fields}, self._stream)
        bound._lock = self._lock
        return bound

    def info(self, message: str, **fields: Any) -> None:
        self._write("info", message, fields)

    def warning(self, message: str, **fields: Any) -> None:
        self._write("warning", message, fields)

    def error(self, message: str, **fields: Any) -> None:
        self._write("error", message, fields)

    def _write(self, level: str, message: str, fields: Mapping[str, Any]) -> None:
        line = {"at": now_text(), "level": level, "message": message, **self.fields, **fields}
        text = json.dumps(line, ensure_ascii=False, default=str) + "\n"
        with self._lock:
            try:
                self._stream.write(text)
                self._stream.flush()
            except (OSError, ValueError):
                pass  # whoever read the log is gone, or its disk is full; the work goes on
