"""Format tokens: `.bin` holds packed sequences, `.idx` is Megatron's index of them, `.ends` says where documents end.

`.ends` is an array of little-endian uint32: positions in the tokens of the whole `.bin`, increasing. A row of L tokens
that starts at s holds the documents between s and the ends in (s, s + L]; what follows the last of them is padding.
So the `cu_seqlens` of a row are [0, ends - s …, L].
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from components.contracts.dataset import PackingOptions, ShardContent
from components.dataset.batches import Value
from components.dataset.formats.megatron import index_bytes
from components.dataset.output import Output, Outputs
from components.dataset.packing import SequencePacker
from components.dataset.tokenizer import BYTES, PIECE_BYTES, Encode, cut
from components.integrity.fault import Fault

SUFFIXES = ("bin", "idx", "ends")
ENDS_DTYPE = np.dtype("<u4")
_READ_BYTES = 4 << 20
_HELD_TOKENS = 1 << 17
"""Documents are packed together once they have so many."""


class TooLong(Exception):
    """`over_long: error` refuses this document."""

    def __init__(self, where: str, num_tokens: int, sequence_length: int) -> None:
        super().__init__(f"{num_tokens} tokens are more than one sequence of {sequence_length}")
        self.where = where


class Packed(NamedTuple):
    """What one shard holds."""

    files: list[Output]
    num_sequences: int
    num_tokens: int
    num_padding: int


class TokensWriter:
    """Encodes documents and packs them. `counts` are fields of PackingCounts, and `num_documents`."""

    def __init__(self, options: PackingOptions, encode: Encode, outputs: Outputs) -> None:
        self._options, self._encode = options, encode
        self._is_bytes, self._dtype = options.tokenizer == BYTES, np.dtype(options.dtype).newbyteorder("<")
        self._bin, self._idx, self._ends = (outputs.new(suffix) for suffix in SUFFIXES)
        self._packer = SequencePacker(
            sequence_length=options.sequence_length, end_of_document=options.end_of_document, dtype=options.dtype,
            write=self._bin.write,
        )  # fmt: skip
        self._pieces, self._waiting, self._num_waiting = list[bytes](), list[tuple[Callable[[], str], int]](), 0
        self._held, self._closes, self._num_held, self._is_open = list[Any](), list[bool](), 0, False
        self.counts = dict[str, int]()

    def add_piece(self, data: Value, *, is_last: bool, closes: bool) -> None:
        """Part of a document that was measured and counted when the shard was planned; bytes only."""
        if is_last and not self._is_open:
            self._hold(data, closes=closes)
            return
        self._pack_held()
        self._is_open = not is_last
        (tokens,) = self._encode([data])
        self._packer.add(tokens, is_last=is_last, closes=closes)

    def add_measured(self, texts: Sequence[Value], closes: Sequence[bool]) -> None:
        """Whole documents that were measured and counted when the shard was planned; bytes only."""
        self._held.extend(texts)
        self._closes.extend(closes)
        self._num_held += sum(map(len, texts))
        if self._num_held >= _HELD_TOKENS:
            self._pack_held()

    def add_documents(
        self, texts: Sequence[Value], *, where: Callable[[int], str], refuse: Callable[[int, str], None]
    ) -> None:
        """Whole documents. `refuse` is told the number of each that is not what the tokenizer takes, and why; `where`
        names one. Raises TooLong for `over_long: error`.
        """
        if self._is_bytes:
            self._add_bytes(texts, where)
            return
        for number, text in enumerate(map(bytes, texts)):
            if not text:
                self._count("num_empty")
                continue
            try:
                text.decode()
            except UnicodeDecodeError as error:
                refuse(number, f"it is not UTF-8: {error.reason} at byte {error.start} of it")
                continue
            before = len(self._pieces)
            self._pieces.extend(cut(text))
            self._waiting.append((partial(where, number), len(self._pieces) - before))
            self._num_waiting += len(text)
            if self._num_waiting >= PIECE_BYTES:
                self._encode_waiting()

    def finish(self) -> Packed:
        """Write what is left."""
        self._encode_waiting()
        self._pack_held()
        ends = self._packer.finish()
        num_rows, options = self._packer.num_rows, self._options
        self._idx.write(index_bytes(num_rows, sequence_length=options.sequence_length, dtype=options.dtype))
        self._ends.write(ends.astype(ENDS_DTYPE).data.cast("B"))
        files = [self._bin, self._idx, self._ends]
        for file in files:
            file.end()
        return Packed(files, num_rows, self._packer.num_tokens, self._packer.num_padding)

    def _add_bytes(self, texts: Sequence[Value], where: Callable[[int], str]) -> None:
        length, sizes = self._options.sequence_length, list(map(len, texts))
        if not sizes or min(sizes) == 0 or (max(sizes) >= length and self._options.over_long != "split"):
            for number, text in enumerate(texts):
                self._admit(text, partial(where, number))
            return
        self._count("num_documents", len(sizes))
        self._count("num_split", sum(size >= length for size in sizes))
        at_once = max(1, len(sizes) * _HELD_TOKENS // sum(sizes))
        for start in range(0, len(sizes), at_once):
            some = sizes[start : start + at_once]
            self._held.extend(texts[start : start + at_once])
            self._closes.extend([True] * len(some))
            self._num_held += sum(some)
            if self._num_held >= _HELD_TOKENS:
                self._pack_held()

    def _encode_waiting(self) -> None:
        encoded = self._encode(self._pieces)
        for where, count in self._waiting:
            parts = [next(encoded) for _ in range(count)]
            self._admit(parts[0] if count == 1 else np.concatenate(parts), where)
        self._pieces, self._waiting, self._num_waiting = [], [], 0

    def _admit(self, tokens: Any, where: Callable[[], str]) -> None:
        """One document, of as many tokens as it may have; bytes are a token each."""
        length, over_long = self._options.sequence_length, self._options.over_long
        if not len(tokens):
            self._count("num_empty")
            return
        if len(tokens) < length or over_long == "split":
            self._count("num_documents")
            if len(tokens) >= length:
                self._count("num_split")
            self._hold(tokens, closes=True)
        elif over_long == "truncate":
            self._count("num_documents")
            self._count("num_truncated")
            self._hold(tokens[:length], closes=False)
        elif over_long == "drop":
            self._count("num_dropped")
        else:
            raise TooLong(where(), len(tokens) + 1, length)

    def _hold(self, tokens: Any, *, closes: bool) -> None:
        """Numpy costs by the call, so documents are packed many at a time."""
        self._held.append(tokens)
        self._closes.append(closes)
        self._num_held += len(tokens)
        if self._num_held >= _HELD_TOKENS:
            self._pack_held()

    def _pack_held(self) -> None:
        if not self._held:
            return
        sizes = np.fromiter(map(len, self._held), dtype=np.int64, count=len(self._held))
        closes = np.array(self._closes)
        ends = np.cumsum(sizes + closes)
        if self._is_bytes:
            tokens = _of_bytes(self._held, self._closes).astype(self._dtype)
        else:
            tokens = np.empty(int(ends[-1]), dtype=self._dtype)
            for start, part in zip((ends - sizes - closes).tolist(), self._held, strict=True):
                tokens[start : start + len(part)] = part
        tokens[ends[closes] - 1] = self._options.end_of_document
        self._held, self._closes, self._num_held = [], [], 0
        self._packer.add_all(tokens, sizes + closes)

    def _count(self, name: str, number: int = 1) -> None:
        if number:
            self.counts[name] = self.counts.get(name, 0) + number


def _of_bytes(texts: list[Value], closes: list[bool]) -> Any:
    """Texts end to end, with room for an end-of-document id behind each that is closed."""
    if all(closes):
        return np.frombuffer(b"\0".join([*texts, b""]), dtype=np.uint8)
    parts = [part for text, is_closed in zip(texts, closes, strict=True) for part in (text, b"\0" * is_closed)]
    return np.frombuffer(b"".join(parts), dtype=np.uint8)


def check(
    files: dict[str, BinaryIO], names: dict[str, str], content: ShardContent, options: PackingOptions
) -> Iterator[Fault]:
    """What is wrong with the three files of a shard, opened at their start; `names` are what to call them."""
    expected = index_bytes(content.num_sequences, sequence_length=options.sequence_length, dtype=options.dtype)
    found = files["idx"].read()
    if found != expected:
        place = _first_difference(found, expected)
        yield Fault(
            names["idx"], f"is not the index of {content.num_sequences} sequences", offset=place,
            expected=expected[place : place + 8].hex(" ") or "the end",
            actual=found[place : place + 8].hex(" ") or "the end",
        )  # fmt: skip
    ends = np.frombuffer(files["ends"].read(), dtype=ENDS_DTYPE).astype(np.int64)
    total = content.num_sequences * options.sequence_length
    if len(wrong := np.flatnonzero(np.diff(ends) <= 0)):
        place = int(wrong[0]) + 1
        yield Fault(
            names["ends"], "ends of documents do not increase", offset=place * ENDS_DTYPE.itemsize,
            expected=f"more than {ends[place - 1]}", actual=str(ends[place]),
        )  # fmt: skip
        return
    if len(ends) and ends[-1] > total:
        yield Fault(
            names["ends"], "a document ends behind the last sequence", offset=(len(ends) - 1) * ENDS_DTYPE.itemsize,
            expected=f"at most {total}", actual=str(ends[-1]),
        )  # fmt: skip
        return
    yield from _token_faults(files["bin"], names["bin"], content, options, ends)


def _token_faults(
    file: BinaryIO, name: str, content: ShardContent, options: PackingOptions, ends: Any
) -> Iterator[Fault]:
    dtype, length = np.dtype(options.dtype).newbyteorder("<"), options.sequence_length
    rows_at_once = max(1, _READ_BYTES // (length * dtype.itemsize))
    row, num_tokens = 0, 0
    while row < content.num_sequences:
        data = file.read(rows_at_once * length * dtype.itemsize)
        tokens = np.frombuffer(data[: len(data) // dtype.itemsize * dtype.itemsize], dtype=dtype)
        first = row * length
        unknown = np.flatnonzero((tokens >= options.vocab_size) | (tokens < 0))
        if len(unknown):
            place = int(unknown[0])
            yield Fault(
                name, "holds a token that is not in the vocabulary", offset=(first + place) * dtype.itemsize,
                expected=f"below {options.vocab_size}", actual=str(tokens[place]),
            )  # fmt: skip
            return
        if len(tokens) % length or not len(tokens):
            yield Fault(
                name, "ends inside a sequence", offset=first * dtype.itemsize + len(data),
                expected=f"{content.num_sequences} sequences", actual=f"{(first + len(tokens)) / length:g}",
            )  # fmt: skip
            return
        starts = np.arange(first, first + len(tokens), length)
        lasts = ends[np.maximum(np.searchsorted(ends, starts + length, side="right") - 1, 0)] if len(ends) else starts
        used = np.clip(lasts - starts, 0, length)
        num_tokens += int(used.sum())
        is_padding = np.arange(length)[None, :] >= used[:, None]
        spoilt = np.flatnonzero((is_padding & (tokens.reshape(-1, length) != options.end_of_document)).reshape(-1))
        if len(spoilt):
            place = int(spoilt[0])
            yield Fault(
                name, "holds a token where padding should be", offset=(first + place) * dtype.itemsize,
                expected=str(options.end_of_document), actual=str(tokens[place]),
            )  # fmt: skip
            return
        row += len(tokens) // length
    if num_tokens != content.num_tokens:
        yield Fault(name, "holds another number of tokens", expected=str(content.num_tokens), actual=str(num_tokens))
    if file.read(1):
        yield Fault(name, "goes on behind its last sequence", offset=row * length * dtype.itemsize)


def _first_difference(left: bytes, right: bytes) -> int:
    for place, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            return place
    return min(len(left), len(right))
