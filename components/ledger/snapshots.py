"""Copies of many records in one object, so that a long log is read with few requests. Never an authority.

A snapshot holds the bytes of `BLOCK` consecutive records, a line each, and nothing else: not a folded state, which a
reader would have to believe. Whoever writes block 3 of a log writes the same bytes. Each record names the SHA-256 of
the one before it, so the record that follows a block proves or refutes all of its lines. What is refuted, torn or
missing is read record by record instead, and replaced by the next writer. A note says up to which record there are
snapshots; it only tells where to look first.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from components.ledger.records import LedgerDamaged, Record

BLOCK = 256
"""Records in a snapshot: block 0 holds records 1 to 256."""


@dataclass(frozen=True, slots=True)
class Line:
    """One record and the bytes it was read from."""

    record: Record
    data: bytes

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.data).hexdigest()


def block_of(seq: int) -> int:
    """The block that holds record `seq`."""
    return (seq - 1) // BLOCK


def last_of(block: int) -> int:
    """Position of the block's last record."""
    return (block + 1) * BLOCK


def positions_of(block: int) -> range:
    """Positions of the block's records."""
    return range(block * BLOCK + 1, last_of(block) + 1)


def encode(lines: Sequence[Line]) -> bytes | None:
    """The snapshot of one whole block, or None when its records cannot be proved from it later."""
    if any(b"\n" in line.data for line in lines) or not _is_chain(lines):
        return None
    return b"\n".join(line.data for line in lines) + b"\n"


def decode(data: bytes, block: int, read: Callable[[bytes, int], Record]) -> list[Line] | None:
    """The lines of a snapshot whose records name each other, or None. Its last line is still to be proved."""
    parts = data.split(b"\n")
    if len(parts) != BLOCK + 1 or parts[-1]:
        return None
    try:
        lines = [Line(read(part, seq), part) for part, seq in zip(parts, positions_of(block), strict=False)]
    except LedgerDamaged:
        return None
    return lines if _is_chain(lines) else None


def _is_chain(lines: Sequence[Line]) -> bool:
    return len(lines) == BLOCK and all(after.record.previous == before.digest for before, after in pairwise(lines))
