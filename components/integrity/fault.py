"""What is wrong with a checkpoint: one finding, exact enough to look at the byte."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """One finding. `str()` is a sentence for people."""

    file: str
    """Path relative to the checkpoint folder."""
    problem: str
    offset: int | None = None
    """Byte in the file."""
    tensor: str | None = None
    expected: str = ""
    actual: str = ""

    def __str__(self) -> str:
        place = self.file
        if self.tensor is not None:
            place += f", tensor {self.tensor}"
        if self.offset is not None:
            place += f", byte {self.offset}"
        told = f"{place}: {self.problem}"
        if self.expected or self.actual:
            told += f" (expected {self.expected or 'nothing'}, found {self.actual or 'nothing'})"
        return told
