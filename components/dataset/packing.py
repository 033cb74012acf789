"""Documents into fixed-length sequences: full pieces as they come, the rests by best-fit decreasing. Pure.

    L = 8: documents of 19, 3 and 4 tokens -> [8 of the first], [8 of the first], [3 + 4 rests], [3 of the second + pad]

Best fit is exact within a window of 10 000 rests, which costs less than 0.15 % padding against a global pass and
needs no other shard. Every choice is settled by length, then by place, so equal input gives equal bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

WINDOW = 10_000
"""Rests that are packed together. Part of the packing rules: see `ShardPlan.packing`."""

Tokens = npt.NDArray[Any]


@dataclass(frozen=True)
class Segment:
    """Tokens of one document, or of one piece of it that ends at a multiple of the sequence length."""

    tokens: Tokens
    """One dimension, any integer type."""
    ends_document: bool
    """Whether the end-of-document id follows the tokens."""

    @property
    def num_tokens(self) -> int:
        return len(self.tokens) + self.ends_document


@dataclass(frozen=True)
class Packed:
    """Sequences, one a row, lying in `data` as they go to disk."""

    data: bytearray
    sequences: Tokens
    num_tokens: int
    """Tokens of documents, end-of-document ids included."""

    @property
    def num_padding(self) -> int:
        return int(self.sequences.size) - self.num_tokens


def pack(segments: Sequence[Segment], *, sequence_length: int, end_of_document: int, dtype: str) -> Packed:
    """Lay `segments` into rows of `sequence_length` tokens of little-endian `dtype`.

    First all full rows in the order of the segments, then the rows that hold rests. The array starts out filled with
    `end_of_document`, so ends and padding need no writing of their own.
    """
    full = [segment.num_tokens // sequence_length for segment in segments]
    rests = [segment.num_tokens % sequence_length for segment in segments]
    owners = [place for place, rest in enumerate(rests) if rest]
    rows, num_rows = best_fit_decreasing([rests[place] for place in owners], capacity=sequence_length)
    first_row = sum(full)
    data, sequences = _blank(first_row + num_rows, sequence_length, end_of_document, dtype)
    flat = sequences.reshape(-1)

    row = 0
    for segment, count in zip(segments, full, strict=True):
        if count:
            # The end-of-document id may be the last token of the last full row; then there is one token less to copy.
            piece = segment.tokens[: count * sequence_length]
            start = row * sequence_length
            flat[start : start + len(piece)] = piece
            row += count
    used = [0] * num_rows
    for place, target in zip(owners, rows, strict=True):
        piece = segments[place].tokens[full[place] * sequence_length :]
        start = (first_row + target) * sequence_length + used[target]
        flat[start : start + len(piece)] = piece
        used[target] += rests[place]
    return Packed(data, sequences, num_tokens=sum(segment.num_tokens for segment in segments))


def best_fit_decreasing(lengths: Sequence[int], *, capacity: int, window: int = WINDOW) -> tuple[list[int], int]:
    """The row of each length, and how many rows there are. No row holds more than `capacity`."""
    rows, num_rows = [0] * len(lengths), 0
    for start in range(0, len(lengths), window):
        part = lengths[start : start + window]
        order = sorted(range(len(part)), key=part.__getitem__, reverse=True)  # stable: ties keep their place
        num_rows = _best_fit(part, order, rows, start, capacity, num_rows)
    return rows, num_rows


def _best_fit(
    lengths: Sequence[int], order: Sequence[int], rows: list[int], start: int, capacity: int, num_rows: int
) -> int:
    """Place each length into the fullest row that still has room, else into a new one.

    Bit r of `rooms` says that some row has exactly r left, so the smallest sufficient room is one shift and one
    lowest-bit away: a placement costs capacity/64 word operations and no tree.
    """
    with_room: dict[int, list[int]] = {}
    rooms = 0
    for place in order:
        length = lengths[place]
        enough = rooms >> length
        if enough:
            room = length + (enough & -enough).bit_length() - 1
            row = with_room[room].pop()
            if not with_room[room]:
                rooms ^= 1 << room
            room -= length
        else:
            row, room = num_rows, capacity - length
            num_rows += 1
        if room:
            with_room.setdefault(room, []).append(row)
            rooms |= 1 << room
        rows[start + place] = row
    return num_rows


def _blank(num_rows: int, length: int, fill: int, dtype: str) -> tuple[bytearray, Tokens]:
    little_endian = np.dtype(dtype).newbyteorder("<")
    data = bytearray(num_rows * length * little_endian.itemsize)
    sequences = np.frombuffer(data, dtype=little_endian).reshape(num_rows, length)
    sequences.fill(fill)
    return data, sequences
