"""From a list of inputs to shards: which bytes go into which shard, decided before any of them is read. Pure.

The plan depends on the sizes and order of the inputs, the options and `target_shard_bytes`, never on how many tasks
will work on it. Without numpy, so that planning starts fast.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from components.contracts.dataset import OverLong, PackingOptions, PlannedInput, PlannedShard
from components.errors import Problem

DTYPE_BYTES = {"uint16": 2, "int32": 4}
MAX_SHARD_BYTES = 256 << 20
"""Of packed tokens: a shard is built in memory, and stays one upload."""
_BYTE_VALUES = 256
_COUNTED_AS = {"split": "num_split", "truncate": "num_truncated", "drop": "num_dropped"}


def check_options(options: PackingOptions, *, target_shard_bytes: int) -> list[Problem]:
    """What is wrong with `options`, taken together; empty when nothing is."""
    problems = []
    if options.sequence_length < 2:
        problems.append(Problem("sequence_length", "is 1", "use at least 2: an input token and its target"))
    if not _BYTE_VALUES <= options.end_of_document < options.vocab_size:
        problems.append(
            Problem("end_of_document", f"is {options.end_of_document} with vocab_size {options.vocab_size}",
                    "bytes take the ids 0 to 255: use 256, and a vocab_size of at least 257")
        )  # fmt: skip
    if options.dtype == "uint16" and options.vocab_size > 1 << 16:
        problems.append(Problem("dtype", f"uint16 cannot hold {options.vocab_size} ids", "use int32"))
    most = MAX_SHARD_BYTES // DTYPE_BYTES[options.dtype]
    for name, value in (("target_shard_bytes", target_shard_bytes), ("sequence_length", options.sequence_length)):
        if value > most:
            problems.append(Problem(name, f"is {value}", f"use at most {most}: a packed shard stays below 256 MiB"))
    return problems


def tokens_kept(num_tokens: int, *, sequence_length: int, over_long: OverLong) -> int:
    """How many of a document's tokens, counted from its start, reach the output.

    `truncate` keeps one full sequence, without an end-of-document id, as the first piece of a split document is.
    `error` keeps nothing: the plan is refused before (see `too_long`).
    """
    if num_tokens <= sequence_length or over_long == "split":
        return num_tokens
    return sequence_length if over_long == "truncate" else 0


def too_long(inputs: Sequence[PlannedInput], options: PackingOptions) -> list[PlannedInput]:
    """Inputs that `over_long: error` refuses."""
    if options.over_long != "error":
        return []
    return [planned for planned in inputs if num_document_tokens(planned.size_bytes) > options.sequence_length]


def num_document_tokens(size_bytes: int) -> int:
    """Tokens of a document of that many bytes, its end-of-document id included. An empty file is no document."""
    return size_bytes + 1 if size_bytes else 0


def plan_shards(
    inputs: Sequence[PlannedInput], options: PackingOptions, *, target_shard_bytes: int
) -> Iterator[PlannedShard]:
    """Shards over `inputs` in order; each ends before its kept tokens would exceed `target_shard_bytes`.

    A document that is larger than that by itself is cut into ranges at multiples of the sequence length, where
    `split` would cut it anyway.
    """
    length = options.sequence_length
    range_bytes = max(length, target_shard_bytes // length * length)
    first, weight = 0, 0
    for place, planned in enumerate(inputs):
        tokens = num_document_tokens(planned.size_bytes)
        kept = tokens_kept(tokens, sequence_length=length, over_long=options.over_long)
        if place > first and weight and kept and weight + kept > target_shard_bytes:
            yield PlannedShard(first_input=first, num_inputs=place - first)
            first, weight = place, 0
        if kept > target_shard_bytes and kept > range_bytes:
            if place > first:
                yield PlannedShard(first_input=first, num_inputs=place - first)
            yield from _ranges(place, planned.size_bytes, range_bytes)
            first, weight = place + 1, 0
        else:
            weight += kept
    if first < len(inputs):
        yield PlannedShard(first_input=first, num_inputs=len(inputs) - first)


def _ranges(place: int, size_bytes: int, range_bytes: int) -> Iterator[PlannedShard]:
    for start in range(0, size_bytes, range_bytes):
        end = start + range_bytes
        yield PlannedShard(
            first_input=place, num_inputs=1, start_byte=start, end_byte=end if end < size_bytes else None
        )


@dataclass(frozen=True)
class Extract:
    """The bytes [start, end) of one input that go into a shard."""

    planned: PlannedInput
    start: int
    end: int
    ends_document: bool
    """Whether an end-of-document id follows."""
    counts: Mapping[str, int]
    """What this adds to the fields of PackingCounts, zeros left out; plain numbers, for there may be millions."""


def extracts(inputs: Sequence[PlannedInput], shard: PlannedShard, options: PackingOptions) -> Iterator[Extract]:
    """What a shard reads of each of its inputs, with what that adds to the counts."""
    length, over_long = options.sequence_length, options.over_long
    for planned in inputs[shard.first_input : shard.first_input + shard.num_inputs]:
        size = planned.size_bytes
        tokens = num_document_tokens(size)
        kept = tokens_kept(tokens, sequence_length=length, over_long=over_long)
        is_first, is_long = shard.start_byte == 0, tokens > length
        end = min(size, kept) if shard.end_byte is None else shard.end_byte
        counts = {"num_inputs": int(is_first), "input_bytes": end - shard.start_byte}
        if not size:
            counts["num_empty"] = 1
        elif is_first and is_long and over_long in _COUNTED_AS:
            counts[_COUNTED_AS[over_long]] = 1
        ends = 0 < tokens == kept and shard.end_byte is None
        yield Extract(planned, shard.start_byte, end, ends_document=ends, counts=counts)
