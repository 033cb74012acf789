"""Whether a .json file is JSON, as it streams by."""

import json

from components.integrity.fault import Fault
from components.integrity.inspector import ONE_TABLE_AT_A_TIME, TensorType

_LOOKED_INTO_BYTES = 4 << 20
"""Parsed JSON takes up to twenty times its text."""


class JsonInspector:
    """Fed the file's bytes in order; `finish` tells whether they are JSON."""

    def __init__(self, path: str, size_bytes: int) -> None:
        self.notes: list[str] = []
        self.tensors: list[TensorType] = []
        self._path, self._text = path, bytearray()
        if size_bytes > _LOOKED_INTO_BYTES:
            self.notes.append(f"digest only, {size_bytes} bytes of JSON are too large to look into")

    def feed(self, chunk: memoryview) -> None:
        if not self.notes:
            self._text += chunk

    def finish(self) -> list[Fault]:
        if self.notes:
            return []
        try:
            with ONE_TABLE_AT_A_TIME:
                json.loads(self._text)
            self._text = bytearray()
        except json.JSONDecodeError as error:
            offset = len(error.doc[: error.pos].encode("utf-8", "surrogatepass"))
            return [Fault(self._path, f"is not JSON: {error.msg}", offset)]
        except UnicodeDecodeError as error:
            return [Fault(self._path, "is not JSON: not UTF-8", error.start)]
        except (ValueError, RecursionError) as error:
            return [Fault(self._path, f"is not JSON that can be read: {str(error)[:200]}")]
        return []

    def close(self) -> None:
        """Nothing is open."""
