"""What comes to light while a shard's inputs are read: counts, records left out, inputs that are not what they were."""

from components.contracts.dataset import BadRecord
from components.dataset.blobs import Changed, Unreadable
from components.errors import BadInput, Problem

NAMED = 20
"""How many faults of one kind are named before the rest is counted."""
_SHOWN_BYTES = 256


class TooManyBadRecords(BadInput):
    """More records are bad than may be left out; nothing more is read."""


class Findings:
    """Collects; raises TooManyBadRecords when going on would only find more of them."""

    def __init__(self, *, max_bad_records: int) -> None:
        self.counts = dict[str, int]()
        self.bad = list[BadRecord]()
        self.changed = list[Problem]()
        self._max_bad = max_bad_records

    def count(self, name: str, number: int = 1) -> None:
        self.counts[name] = self.counts.get(name, 0) + number

    def failed(self, failure: Changed | Unreadable) -> None:
        """An input could not be read."""
        if isinstance(failure, Changed):
            self.changed.append(failure.problem)
        else:
            self.reject(failure.path, failure.reason, offset=failure.offset or None)

    def reject(self, path: str, reason: str, *, offset: int | None = None, content: bytes | memoryview = b"") -> None:
        """A record is left out."""
        shown = bytes(content[:_SHOWN_BYTES]).decode("utf-8", "backslashreplace") if content else None
        self.bad.append(BadRecord(path=path, reason=reason, offset=offset, content=shown))
        if len(self.bad) > self._max_bad and len(self.bad) >= NAMED:
            raise TooManyBadRecords("TooManyBadRecords", "reading was given up")


def damaged(uri: str, reason: str, offset: int | None) -> BadInput:
    """An input that cannot be read on: everything behind the damage would be missing."""
    where = uri if offset is None else f"{uri} at byte {offset}"
    return BadInput(
        "InputDamaged", f"{where}: {reason}", "restore the input, or take it out of the corpus, and run again",
        problems=[Problem(where, reason)],
    )  # fmt: skip
