"""No token lost, none invented, nothing left to chance."""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.dataset import packing
from components.dataset.packing import SequencePacker, best_fit_decreasing

EOD = 256


@dataclass
class Packed:
    data: bytes
    rows: list[list[int]]
    ends: list[int]
    num_tokens: int
    num_padding: int


def packed(*contents: bytes, length: int = 8, dtype: str = "uint16", pieces: int = 1 << 30) -> Packed:
    """The documents laid into rows, each handed over in pieces of that many bytes."""
    written = bytearray()
    packer = SequencePacker(sequence_length=length, end_of_document=EOD, dtype=dtype, write=written.extend)
    for content in contents:
        tokens = np.frombuffer(content, dtype=np.uint8)
        for start in range(0, len(tokens), pieces):
            packer.add(tokens[start : start + pieces], is_last=start + pieces >= len(tokens))
    ends = packer.finish().tolist()
    rows = np.frombuffer(bytes(written), dtype=np.dtype(dtype).newbyteorder("<")).reshape(-1, length).tolist()
    return Packed(bytes(written), rows, ends, packer.num_tokens, packer.num_padding)


def test_full_pieces_come_first_then_rests_share_a_row() -> None:
    result = packed(b"ABCDEFGHIJ", b"xy", b"1234")

    assert result.rows == [
        [65, 66, 67, 68, 69, 70, 71, 72],
        [73, 74, EOD, 49, 50, 51, 52, EOD],
        [120, 121, EOD, EOD, EOD, EOD, EOD, EOD],
    ]
    assert (result.num_tokens, result.num_padding) == (19, 5)
    assert result.ends == [8, 11, 16, 19]


def test_a_document_that_fills_its_row_with_its_end_leaves_no_rest() -> None:
    assert packed(b"ABCDEFG").rows == [[65, 66, 67, 68, 69, 70, 71, EOD]]


def test_a_document_as_long_as_a_row_puts_only_its_end_into_the_next() -> None:
    result = packed(b"ABCDEFGH")

    assert result.rows == [[65, 66, 67, 68, 69, 70, 71, 72], [EOD] * 8]
    assert (result.num_tokens, result.num_padding) == (9, 7)
    assert result.ends == [8, 9]


def test_nothing_packs_into_nothing() -> None:
    assert packed() == Packed(b"", [], [], 0, 0)


def test_tokens_lie_little_endian() -> None:
    assert packed(b"A", length=2).data == bytes([65, 0, 0, 1])
    assert packed(b"A", length=2, dtype="int32").data == bytes([65, 0, 0, 0, 0, 1, 0, 0])


def test_a_document_cut_once_has_no_end_and_the_next_one_begins_a_row() -> None:
    written = bytearray()
    packer = SequencePacker(sequence_length=4, end_of_document=EOD, dtype="uint16", write=written.extend)
    packer.add(np.arange(4), closes=False)
    packer.add(np.arange(2))

    assert packer.finish().tolist() == [4, 7]
    assert np.frombuffer(bytes(written), dtype="<u2").tolist() == [0, 1, 2, 3, 0, 1, EOD, EOD]


def test_an_open_document_cannot_be_forgotten() -> None:
    packer = SequencePacker(sequence_length=4, end_of_document=EOD, dtype="uint16", write=bytearray().extend)
    packer.add(np.arange(2), is_last=False)

    with pytest.raises(ValueError, match="still open"):
        packer.finish()


documents = st.lists(st.binary(min_size=1, max_size=60), max_size=25)


@given(contents=documents, length=st.integers(2, 40), pieces=st.integers(1, 70))
def test_every_document_can_be_read_back_whole(contents: list[bytes], length: int, pieces: int) -> None:
    result = packed(*contents, length=length, pieces=pieces)

    full = [content[place : place + length] for content in contents for place in _starts(content, length)]
    assert result.rows[: len(full)] == [_tokens(piece, length) for piece in full]
    rests = sorted(_rest(content, length) for content in contents if (len(content) + 1) % length)
    assert sorted(_documents(result.rows[len(full) :], num_rests=len(rests))) == rests


@given(contents=documents, length=st.integers(2, 40))
def test_the_ends_say_where_each_document_of_a_row_lies(contents: list[bytes], length: int) -> None:
    result = packed(*contents, length=length)

    flat, taken = list(itertools.chain(*result.rows)), list[list[int]]()
    assert result.ends == sorted(set(result.ends))
    for row in range(len(result.rows)):
        start = row * length
        for end in (end for end in result.ends if row * length < end <= (row + 1) * length):
            taken.append(flat[start:end])
            start = end
        assert flat[start : (row + 1) * length] == [EOD] * ((row + 1) * length - start)
    assert sorted(taken) == sorted(
        [*content, EOD][place : place + length] for content in contents for place in range(0, len(content) + 1, length)
    )
    assert sum(map(len, taken)) == result.num_tokens


@given(contents=documents, length=st.integers(2, 40))
def test_however_the_pieces_are_cut_the_bytes_are_the_same(contents: list[bytes], length: int) -> None:
    first = packed(*contents, length=length)

    assert packed(*contents, length=length, pieces=7) == first
    assert first.num_tokens == sum(len(content) + 1 for content in contents)
    assert first.num_tokens + first.num_padding == len(first.rows) * length


@pytest.mark.parametrize("at_once", [1, 3, 50, 500])
@pytest.mark.parametrize("window", [20, 10_000])
def test_documents_handed_over_together_are_laid_as_one_by_one(
    monkeypatch: pytest.MonkeyPatch, at_once: int, window: int
) -> None:
    monkeypatch.setattr(packing, "WINDOW", window)
    sizes = np.random.RandomState(2).randint(1, 200, size=500).tolist()
    contents = [bytes([number % 256]) * size for number, size in enumerate(sizes)]
    written = bytearray()
    packer = SequencePacker(sequence_length=64, end_of_document=EOD, dtype="uint16", write=written.extend)
    for start in range(0, len(contents), at_once):
        some = [[*content, EOD] for content in contents[start : start + at_once]]
        packer.add_all(np.array(list(itertools.chain(*some)), dtype="<u2"), np.array([len(one) for one in some]))
    ends = packer.finish().tolist()

    result = packed(*contents, length=64)
    assert (bytes(written), ends) == (result.data, result.ends)
    assert (packer.num_tokens, packer.num_padding) == (result.num_tokens, result.num_padding)


def test_windows_carry_over_what_is_not_full_and_lose_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "WINDOW", 20)
    sizes = np.random.RandomState(1).randint(1, 60, size=500).tolist()
    contents = [bytes([number % 256]) * size for number, size in enumerate(sizes)]

    result = packed(*contents, length=64)

    found = sorted(_documents(result.rows, num_rests=500))
    assert found == sorted(contents)
    assert result.num_padding / (len(result.rows) * 64) < 0.08


def test_tiny_documents_cannot_make_a_window_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "WINDOW", 20)

    result = packed(*[b"x"] * 400, *[b"y" * 500] * 3, length=1024)

    assert result.num_tokens == 400 * 2 + 3 * 501


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
    sizes: Any = np.random.RandomState(0).lognormal(mean=np.log(400), sigma=1.2, size=30_000).astype(int) + 1
    rests = [int(rest) for rest in sizes % length if rest]

    _, num_rows = best_fit_decreasing(rests, capacity=length)

    assert 1 - sum(rests) / (num_rows * length) < 0.0015
