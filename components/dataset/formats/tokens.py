"""Format tokens: `.bin` holds packed sequences, `.idx` is Megatron's index of them, `.ends` says where documents end.

`.ends` is an array of little-endian uint32: positions in the tokens of the whole `.bin`, increasing. A row of L tokens
that starts at s holds the documents between s and the ends in (s, s + L]; what follows the last of them is padding.
So the `cu_seqlens` of a row are [0, ends - s …, L].
"""

from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from components.contracts.dataset import PackingOptions, ShardContent
from components.dataset.formats.megatron import index_bytes
from components.dataset.output import Output, Outputs
from components.dataset.packing import SequencePacker
from components.dataset.tokenizer import BYTES, PIECE_BYTES, Encode, cut
from components.integrity.fault import Fault

SUFFIXES = ("bin", "idx", "ends")
ENDS_DTYPE = np.dtype("<u4")
_READ_BYTES = 4 << 20


class TooLong(Exception):
    """`over_long: error` refuses this document."""

    def __init__(self, where: str, num_tokens: int, sequence_length: int) -> None:
        super().__init__(f"{num_tokens} tokens are more than one sequence of {sequence_length}")
        self.where = where


class Refused(Exception):
    """The document cannot be encoded."""


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
        self._bin, self._idx, self._ends = (outputs.new(suffix) for suffix in SUFFIXES)
        self._packer = SequencePacker(
            sequence_length=options.sequence_length, end_of_document=options.end_of_document, dtype=options.dtype,
            write=self._bin.write,
        )  # fmt: skip
        self._pieces, self._waiting, self._num_waiting = list[bytes | memoryview](), list[tuple[str, int]](), 0
        self.counts = dict[str, int]()

    def add_piece(self, data: bytes | memoryview, *, is_last: bool, closes: bool) -> None:
        """Part of a document that was measured and counted when the shard was planned; bytes only."""
        (tokens,) = self._encode([data])
        self._packer.add(tokens, is_last=is_last, closes=closes)

    def add_document(self, data: bytes | memoryview, *, where: str) -> None:
        """A whole document. Raises Refused when it is not what the tokenizer takes, TooLong for `over_long: error`."""
        if not data:
            self._count("num_empty")
            return
        if self._options.tokenizer == BYTES:
            (tokens,) = self._encode([bytes(data)])
            self._pack(tokens, where)
            return
        text = bytes(data)
        try:
            text.decode()
        except UnicodeDecodeError as error:
            raise Refused(f"it is not UTF-8: {error.reason} at byte {error.start} of it") from error
        before = len(self._pieces)
        self._pieces.extend(cut(text))
        self._waiting.append((where, len(self._pieces) - before))
        self._num_waiting += len(text)
        if self._num_waiting >= PIECE_BYTES:
            self._encode_waiting()

    def finish(self) -> Packed:
        """Write what is left."""
        self._encode_waiting()
        ends = self._packer.finish()
        num_rows, options = self._packer.num_rows, self._options
        self._idx.write(index_bytes(num_rows, sequence_length=options.sequence_length, dtype=options.dtype))
        self._ends.write(ends.astype(ENDS_DTYPE).data.cast("B"))
        files = [self._bin, self._idx, self._ends]
        for file in files:
            file.end()
        return Packed(files, num_rows, self._packer.num_tokens, self._packer.num_padding)

    def _encode_waiting(self) -> None:
        encoded = self._encode(self._pieces)
        for where, count in self._waiting:
            parts = [next(encoded) for _ in range(count)]
            self._pack(parts[0] if count == 1 else np.concatenate(parts), where)
        self._pieces, self._waiting, self._num_waiting = [], [], 0

    def _pack(self, tokens: Any, where: str) -> None:
        length, over_long = self._options.sequence_length, self._options.over_long
        if not len(tokens):
            self._count("num_empty")
            return
        if len(tokens) < length or over_long == "split":
            self._count("num_documents")
            if len(tokens) >= length:
                self._count("num_split")
            self._packer.add(tokens)
        elif over_long == "truncate":
            self._count("num_documents")
            self._count("num_truncated")
            self._packer.add(tokens[:length], closes=False)
        elif over_long == "drop":
            self._count("num_dropped")
        else:
            raise TooLong(where, len(tokens) + 1, length)

    def _count(self, name: str) -> None:
        self.counts[name] = self.counts.get(name, 0) + 1


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
