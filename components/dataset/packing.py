"""Documents into fixed-length sequences: full pieces as they come, the rests by best-fit decreasing.

    L = 8: documents of 19, 3 and 4 tokens -> [8 of the first], [8 of the first], [3 + 4 rests], [3 of the second + pad]

Rests wait in a window; when it is full they are packed together, and what lies in rows with much room left waits on for
the next window. That costs less than 0.15 % padding against a global pass, needs no other shard and little memory.
Every choice is settled by length, then by place, so equal input gives equal bytes.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

WINDOW = 10_000
"""Rests that are packed together, and"""
WINDOW_TOKENS = 2 << 20
"""their tokens. Both part of the packing rules: see `ShardPlan.packing`."""
CARRIED = 4
"""At most 1/4 of a window waits for the next one."""

_WRITTEN_BYTES = 1 << 20
"""About what is handed over at once."""

Tokens = npt.NDArray[Any]


class SequencePacker:
    """Lays documents into rows of `sequence_length` little-endian tokens and hands the rows to `write`."""

    def __init__(
        self, *, sequence_length: int, end_of_document: int, dtype: str, write: Callable[[memoryview], None]
    ) -> None:
        self._length, self._end, self._write = sequence_length, end_of_document, write
        self._dtype = np.dtype(dtype).newbyteorder("<")
        self._open, self._num_open = np.empty(0, dtype=self._dtype), 0
        # The rests that wait, end to end, and then a row of padding. In one piece: they are small and come and go with
        # what is large, which leaves holes in memory that nothing fits.
        self._window = np.empty(WINDOW_TOKENS + 2 * sequence_length, dtype=self._dtype)
        self._window[-sequence_length:] = end_of_document
        self._sizes, self._num_waiting = list[int](), 0
        self._ends = list[Tokens]()
        self.num_rows = 0
        self.num_tokens = 0
        """Tokens of documents, end-of-document ids included."""

    def add(self, tokens: Tokens, *, is_last: bool = True, closes: bool = True) -> None:
        """More tokens of the open document. `is_last`: there are no more; `closes`: end-of-document follows.

        They are kept as they are until their row is written, so they must not change.
        """
        if self._num_open:
            tokens = np.concatenate([self._open, tokens])
            self._num_open = 0
        size = len(tokens) + (closes and is_last)
        if size >= self._length:
            tokens = self._full_rows(tokens, size // self._length)
            size %= self._length
        if not is_last:
            self._open, self._num_open = tokens, size
        elif size:
            waiting = self._window[self._num_waiting : self._num_waiting + size]
            waiting[: len(tokens)] = tokens
            waiting[len(tokens) :] = self._end
            self._wait([size])

    def add_all(self, tokens: Tokens, sizes: Tokens) -> None:
        """Whole documents end to end in `tokens`, each with its end-of-document id if it has one: what `add` does with
        them one by one. `sizes` are theirs.
        """
        if self._num_open:
            raise ValueError("a document is still open")
        counts, rests = sizes // self._length, sizes % self._length
        ends = np.cumsum(sizes)
        starts, cuts = ends - sizes, ends - rests
        first = 0
        while first < len(sizes):
            last = first + self._num_until_full(rests[first:])
            with_rows = np.flatnonzero(counts[first:last]) + first
            if len(with_rows):
                parts = zip(starts[with_rows].tolist(), cuts[with_rows].tolist(), strict=True)
                self._write_rows(np.concatenate([tokens[start:cut] for start, cut in parts], dtype=self._dtype))
            with_rest = np.flatnonzero(rests[first:last]) + first
            more = rests[with_rest].tolist()
            waiting = self._window[self._num_waiting : self._num_waiting + sum(more)]
            if not len(with_rows):
                waiting[:] = tokens[starts[first] : ends[last - 1]]
            elif more:
                parts = zip(cuts[with_rest].tolist(), ends[with_rest].tolist(), strict=True)
                np.concatenate([tokens[cut:end] for cut, end in parts], out=waiting)
            self._wait(more)
            first = last

    def finish(self) -> Tokens:
        """Write what waits; returns where documents end: increasing positions in the tokens of all rows together.

        A document cut by the end of a row ends there, and begins anew. What follows the last end in a row is padding.
        """
        if self._num_open:
            raise ValueError("a document is still open")
        while self._sizes:
            self._pack_window(is_final=True)
        return np.concatenate(self._ends) if self._ends else np.empty(0, dtype="<i8")

    @property
    def num_padding(self) -> int:
        return self.num_rows * self._length - self.num_tokens

    def _full_rows(self, tokens: Tokens, count: int) -> Tokens:
        """Write `count` full rows; returns what is left. The very last token may be the end of the document."""
        taken = min(len(tokens), count * self._length)
        full = np.empty(count * self._length, dtype=self._dtype)
        full[:taken] = tokens[:taken]
        full[taken:] = self._end
        self._write_rows(full)
        return tokens[taken:].copy()  # a view would keep the whole document

    def _write_rows(self, full: Tokens) -> None:
        """Write rows that a document ends in, or goes on behind."""
        first = (self.num_rows + 1) * self._length
        self._ends.append(np.arange(first, first + len(full), self._length, dtype="<i8"))
        self.num_rows += len(full) // self._length
        self.num_tokens += len(full)
        self._write(full.data.cast("B"))

    def _num_until_full(self, rests: Tokens) -> int:
        """How many more documents with these rests fill the window, or all of them."""
        is_full = (np.cumsum(rests) + self._num_waiting >= WINDOW_TOKENS) | (
            np.cumsum(rests > 0) + len(self._sizes) >= WINDOW
        )
        place = int(np.argmax(is_full))
        return place + 1 if is_full[place] else len(rests)

    def _wait(self, sizes: Sequence[int]) -> None:
        """Rests of these sizes were laid into the window."""
        self._sizes.extend(sizes)
        self._num_waiting += sum(sizes)
        if self._num_waiting >= WINDOW_TOKENS or len(self._sizes) >= WINDOW:
            self._pack_window(is_final=False)

    def _pack_window(self, *, is_final: bool) -> None:
        length, sizes = self._length, np.array(self._sizes, dtype=np.int64)
        found, num_rows = best_fit_decreasing(self._sizes, capacity=length)
        rows = np.array(found, dtype=np.int64)
        used = np.bincount(rows, weights=sizes, minlength=num_rows).astype(np.int64)
        is_kept = np.ones(num_rows, dtype=bool) if is_final else _full_enough(used, length)
        if np.count_nonzero(~is_kept[rows]) > WINDOW // CARRIED:  # tiny ones: they would fill the next window alone
            is_kept[:] = True
        is_taken, num_kept = is_kept[rows], int(is_kept.sum())
        # What is laid end to end: the rests in the order of their rows, and behind the last of each row its padding.
        places = np.cumsum(sizes) - sizes
        begins = np.r_[places[is_taken], np.full(num_kept, len(self._window) - length)]
        counts = np.r_[sizes[is_taken], (length - used)[is_kept]]
        order = np.argsort(np.r_[(np.cumsum(is_kept) - 1)[rows[is_taken]], np.arange(num_kept)], kind="stable")
        begins, counts = begins[order], counts[order]
        ends = np.cumsum(counts) + self.num_rows * length
        self._ends.append(ends[order < len(order) - num_kept].astype("<i8"))
        self.num_rows += num_kept
        self.num_tokens += int(used[is_kept].sum())
        self._lay_out(begins, counts)
        self._keep(places[~is_taken], sizes[~is_taken])

    def _lay_out(self, begins: Tokens, counts: Tokens) -> None:
        """Write parts of the window one behind the other."""
        width, window = self._dtype.itemsize, self._window.data.cast("B")
        parts, num_bytes = list[memoryview](), 0
        for begin, size in zip((begins * width).tolist(), (counts * width).tolist(), strict=True):
            parts.append(window[begin : begin + size])
            num_bytes += size
            if num_bytes >= _WRITTEN_BYTES:
                self._write(memoryview(b"".join(parts)))
                parts, num_bytes = [], 0
        self._write(memoryview(b"".join(parts)))

    def _keep(self, places: Tokens, sizes: Tokens) -> None:
        """Only these rests go on waiting."""
        end = 0
        for place, size in zip(places.tolist(), sizes.tolist(), strict=True):
            self._window[end : end + size] = self._window[place : place + size]
            end += size
        self._sizes, self._num_waiting = sizes.tolist(), end


def _full_enough(used: Tokens, length: int) -> npt.NDArray[np.bool_]:
    """Which rows are written: all but the emptiest with over 1/1000 of room, which may hold 1/4 of all tokens."""
    emptiest = np.argsort(used, kind="stable")
    is_roomy = length - used[emptiest] > length // 1000
    waits = emptiest[is_roomy & (np.cumsum(used[emptiest]) <= used.sum() // CARRIED)]
    kept = np.ones(len(used), dtype=bool)
    kept[waits] = False
    return kept


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
