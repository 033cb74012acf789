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
        place = "".join(letter if letter.isprintable() else "?" for letter in self.file)
        if self.tensor is not None:
            place += f", tensor {self.tensor}"
        if self.offset is not None:
            place += f", byte {self.offset}"
        told = f"{place}: {self.problem}"
        details = [f"expected {self.expected}"] if self.expected else []
        details += [f"found {self.actual}"] if self.actual else []
        return f"{told} ({', '.join(details)})" if details else told
