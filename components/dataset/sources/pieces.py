"""The bytes of a shard's inputs, piece by piece in the order of the plan, read ahead where that pays off."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from components.dataset.blobs import READ_BYTES, Blobs, Changed, Unreadable
from components.dataset.inputs import Input
from components.dataset.prefetch import in_order

Failure = Changed | Unreadable

GAP_BYTES = 64 << 10
"""Neighbouring ranges of one object with at most this between them are one read."""


class Piece(NamedTuple):
    """Some bytes of an input, or why there are none."""

    start: int
    data: bytes | Failure


class _Request(NamedTuple):
    item: Input
    start: int
    end: int


def pieces_of(
    inputs: Iterable[Input], blobs: Blobs, ranges: Callable[[Input], Iterator[tuple[int, int]]]
) -> Iterator[tuple[Input, Iterator[Piece]]]:
    """For each input its `ranges`, of which it has at least one, read. An input's pieces must be taken before the next
    input's.
    """
    if blobs.in_flight <= 1:
        yield from ((item, _read_now(item, ranges(item), blobs)) for item in inputs)
        return
    inputs, asked = list(inputs), deque[list[int]]()

    def wanted() -> Iterator[_Request]:
        for item in inputs:
            some = list(ranges(item))
            asked.append([start for start, _ in some])
            for start, end in some:
                yield _Request(item, start, end)

    results = _read(wanted(), blobs)
    for item in inputs:
        own = _own(asked, results)
        yield item, own
        for _ in own:
            pass  # what the taker left, so that the next input starts at its own


def _read_now(item: Input, ranges: Iterator[tuple[int, int]], blobs: Blobs) -> Iterator[Piece]:
    for start, end in ranges:
        try:
            data: bytes | Failure = blobs.read(item, start, end)
        except (Changed, Unreadable) as failure:
            data = failure
        yield Piece(start, data)


def _own(asked: deque[list[int]], results: Iterator[bytes | Failure]) -> Iterator[Piece]:
    data = next(results)  # the input's ranges are known once its first one was asked for
    first, *more = asked.popleft()
    yield Piece(first, data)
    for start in more:
        yield Piece(start, next(results))


def whole(item: Input) -> Iterator[tuple[int, int]]:
    """The range of an input in pieces of READ_BYTES; one empty piece for an empty range, which shows a change too."""
    return stretches(item.start, item.stop, READ_BYTES)


def stretches(start: int, stop: int, size: int) -> Iterator[tuple[int, int]]:
    """From `start` to `stop`, `size` at a time; at least one, which may be empty."""
    yield start, min(stop, start + size)
    for place in range(start + size, stop, size):
        yield place, min(stop, place + size)


def joined(pieces: Iterator[Piece]) -> bytes | Failure:
    """All bytes of an input, or the first failure."""
    parts = []
    for piece in pieces:
        if isinstance(piece.data, Failure):
            return piece.data
        parts.append(piece.data)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def wholes_of(inputs: Iterable[Input], blobs: Blobs) -> Iterator[tuple[Input, bytes | Failure]]:
    """For each input its range as a whole."""
    if blobs.in_flight > 1:
        for item, pieces in pieces_of(inputs, blobs, whole):
            yield item, joined(pieces)
        return
    read = blobs.read
    for item in inputs:
        _, _, size, _, start, end, _ = item
        if end < 0:
            end = size
        if end - start > READ_BYTES:
            yield item, joined(_read_now(item, whole(item), blobs))
            continue
        try:
            data: bytes | Failure = read(item, start, end)
        except (Changed, Unreadable) as failure:
            data = failure
        yield item, data


def rows_of(inputs: Sequence[Input], blobs: Blobs) -> Iterator[tuple[Input, bytes | Failure]]:
    """For each input its range as a whole; neighbours in one object are read at once."""
    runs = list(_runs(inputs))
    wanted = (_Request(run[0], run[0].start, max(item.stop for item in run)) for run in runs)
    for run, data in zip(runs, _read(wanted, blobs), strict=True):
        base = run[0].start
        for item in run:
            yield item, data if isinstance(data, Failure) else data[item.start - base : item.stop - base]


def _read(wanted: Iterable[_Request], blobs: Blobs) -> Iterator[bytes | Failure]:
    def read(request: _Request) -> bytes | Failure:
        try:
            return blobs.read(*request)
        except (Changed, Unreadable) as failure:
            return failure

    return in_order(read, wanted, in_flight=blobs.in_flight, size_of=lambda request: request.end - request.start)


def _runs(inputs: Sequence[Input]) -> Iterator[list[Input]]:
    run = list[Input]()
    for item in inputs:
        last = run[-1] if run else None
        if last is not None and not (
            item[1:4] == last[1:4]
            and 0 <= item.start - last.stop <= GAP_BYTES
            and item.stop - run[0].start <= READ_BYTES
        ):
            yield run
            run = []
        run.append(item)
    if run:
        yield run
