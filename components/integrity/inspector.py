"""What looks at a file's content as it streams by, and what it found in it."""

from threading import Lock
from typing import NamedTuple, Protocol

from components.integrity.fault import Fault

ONE_TABLE_AT_A_TIME = Lock()
"""Held while a header, pickle or JSON text becomes values: workers share one limit of memory, and the interpreter reads
only one at a time anyway.
"""


class TensorType(NamedTuple):
    """A tensor as its file describes it. `name` is unique in the file, `dtype` a safetensors code."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def spelled(self) -> str:
        """`F32[2,3]`."""
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"


class Inspector(Protocol):
    """Fed a file's bytes in order."""

    @property
    def notes(self) -> list[str]:
        """What it did not look into, one sentence each without the file's name."""

    @property
    def tensors(self) -> list[TensorType]:
        """Known before the first byte where a table says so, after `finish` at the latest."""

    def feed(self, chunk: memoryview) -> None:
        """The next bytes. The buffer is reused: copy what must stay."""

    def finish(self) -> list[Fault]:
        """All findings, after the last byte."""

    def close(self) -> None:
        """Let go of open files; called once, also after an error."""
