"""No token lost, none invented, nothing left to chance."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.dataset.packing import Packed, Segment, best_fit_decreasing, pack

EOD = 256


def text(content: bytes, *, ends: bool = True) -> Segment:
    return Segment(np.frombuffer(content, dtype=np.uint8), ends_document=ends)


def packed(*contents: bytes, length: int = 8) -> Packed:
    return pack([text(content) for content in contents], sequence_length=length, end_of_document=EOD, dtype="uint16")


def test_full_pieces_come_first_then_rests_share_a_row() -> None:
    result = packed(b"ABCDEFGHIJ", b"xy", b"1234")

    assert result.sequences.tolist() == [
        [65, 66, 67, 68, 69, 70, 71, 72],
        [73, 74, EOD, 49, 50, 51, 52, EOD],
        [120, 121, EOD, EOD, EOD, EOD, EOD, EOD],
    ]
    assert (result.num_tokens, result.num_padding) == (19, 5)


def test_a_document_that_fills_its_row_with_its_end_leaves_no_rest() -> None:
    assert packed(b"ABCDEFG").sequences.tolist() == [[65, 66, 67, 68, 69, 70, 71, EOD]]


def test_a_document_as_long_as_a_row_puts_only_its_end_into_the_next() -> None:
    result = packed(b"ABCDEFGH")

    assert result.sequences.tolist() == [[65, 66, 67, 68, 69, 70, 71, 72], [EOD] * 8]
    assert (result.num_tokens, result.num_padding) == (9, 7)


def test_nothing_packs_into_nothing() -> None:
    assert packed().sequences.shape == (0, 8)
    assert packed().data == b""


def test_tokens_lie_little_endian() -> None:
    assert packed(b"A", length=2).data == bytes([65, 0, 0, 1])
    whole = pack([text(b"A")], sequence_length=2, end_of_document=EOD, dtype="int32")
    assert whole.data == bytes([65, 0, 0, 0, 0, 1, 0, 0])


documents = st.lists(st.binary(min_size=1, max_size=60), max_size=25)


@given(contents=documents, length=st.integers(2, 40))
def test_every_document_can_be_read_back_whole(contents: list[bytes], length: int) -> None:
    result = packed(*contents, length=length)

    rows = [row.tolist() for row in result.sequences]
    full = [content[place : place + length] for content in contents for place in _starts(content, length)]
    assert rows[: len(full)] == [_tokens(piece, length) for piece in full]
    rests = sorted(_rest(content, length) for content in contents if (len(content) + 1) % length)
    assert sorted(_documents(rows[len(full) :], num_rests=len(rests))) == rests


def _starts(content: bytes, length: int) -> range:
    return range(0, (len(content) + 1) // length * length, length)


def _tokens(piece: bytes, length: int) -> list[int]:
    return [*piece, *[EOD] * (length - len(piece))]


def _rest(content: bytes, length: int) -> bytes:
    return content[(len(content) + 1) // length * length :]


def _documents(rows: list[list[int]], *, num_rests: int) -> list[bytes]:
    """What lies between the ends in `rows`; a rest that is nothing but an end looks like padding, so count those."""
    found = [
        bytes(group)
        for row in rows
        for is_end, group in itertools.groupby(row, key=lambda token: token == EOD)
        if not is_end
    ]
    return found + [b""] * (num_rests - len(found))


@given(contents=documents, length=st.integers(2, 40))
def test_counts_add_up_and_repeating_gives_the_same_bytes(contents: list[bytes], length: int) -> None:
    first, second = packed(*contents, length=length), packed(*contents, length=length)

    assert first.data == second.data
    assert first.num_tokens == sum(len(content) + 1 for content in contents)
    assert first.num_tokens + first.num_padding == first.sequences.size
    assert len(first.data) == first.sequences.size * 2


@given(
    lengths=st.lists(st.integers(1, 50), max_size=120),
    window=st.integers(1, 40),
)
def test_no_row_is_over_full_and_all_but_one_a_window_are_more_than_half_full(lengths: list[int], window: int) -> None:
    rows, num_rows = best_fit_decreasing(lengths, capacity=50, window=window)

    fill = [0] * num_rows
    for length, row in zip(lengths, rows, strict=True):
        fill[row] += length
    assert max(fill, default=0) <= 50
    assert sum(amount * 2 <= 50 for amount in fill) <= -(-len(lengths) // window)


def test_best_fit_prefers_the_fullest_row_that_has_room() -> None:
    # 6 and 5 open rows with 4 and 5 left; 4 must go to the row with 4 left, then 5 still fits the other.
    assert best_fit_decreasing([6, 5, 5, 4], capacity=10) == ([0, 1, 1, 0], 2)


@pytest.mark.parametrize("length", [1024, 2048])
def test_padding_stays_below_the_goal_on_documents_of_natural_sizes(length: int) -> None:
    sizes = np.random.RandomState(0).lognormal(mean=np.log(400), sigma=1.2, size=30_000).astype(int) + 1
    rests = [int(rest) for rest in sizes % length if rest]

    _, num_rows = best_fit_decreasing(rests, capacity=length)

    assert 1 - sum(rests) / (num_rows * length) < 0.0015
