"""From inputs to shards: which bytes go into which shard, decided before any of them is read. Pure, without numpy.

The plan depends on the inputs, their sizes and order, the options and `target_shard_bytes`, never on how many tasks
will work on it. A shard ends where it is full, or earlier at an input whose name says so: an input added in the
middle changes the shard it falls into, and soon the shards after it are the same again and need not be made again.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from components.contracts.dataset import DataOptions, OverLong, PackingOptions
from components.dataset.inputs import Input
from components.errors import Problem

DTYPE_BYTES = {"uint16": 2, "int32": 4}
MAX_SHARD_BYTES = 1 << 30
"""Of packed tokens: a shard stays one upload, and its positions fit 32 bits."""
MAX_RECORD_BYTES = 256 << 20
"""A record is read into memory whole."""
MAX_INPUTS = 1 << 16
"""In one shard: a line of the plan is read into memory whole."""
_BYTE_VALUES = 256
_COUNTED_AS = {"split": "num_split", "truncate": "num_truncated", "drop": "num_dropped"}


class Unit(NamedTuple):
    """An input, or a range of one, that is not cut further."""

    item: Input
    weight: int
    """Bytes it brings to its shard."""
    group: str = ""
    """Neighbours of one group stay in one shard; empty: in no group."""


def check_options(options: DataOptions, *, target_shard_bytes: int) -> list[Problem]:
    """What is wrong with `options`, taken together; empty when nothing is."""
    problems = []
    if isinstance(options, PackingOptions):
        problems += _token_problems(options)
        most = MAX_SHARD_BYTES // DTYPE_BYTES[options.dtype]
        sizes = [("target_shard_bytes", target_shard_bytes), ("sequence_length", options.sequence_length)]
    else:
        most, sizes = MAX_SHARD_BYTES, [("target_shard_bytes", target_shard_bytes)]
    for name, value in sizes:
        if value > most:
            problems.append(Problem(name, f"is {value}", f"use at most {most}: a packed shard stays below 1 GiB"))
    return problems


def _token_problems(options: PackingOptions) -> list[Problem]:
    problems = []
    if options.sequence_length < 2:
        problems.append(Problem("sequence_length", "is 1", "use at least 2: an input token and its target"))
    lowest = _BYTE_VALUES if options.tokenizer == "bytes" else 0
    if not lowest <= options.end_of_document < options.vocab_size:
        problems.append(
            Problem("end_of_document", f"is {options.end_of_document} with vocab_size {options.vocab_size}",
                    "bytes take the ids 0 to 255: use 256, and a vocab_size of at least 257")
        )  # fmt: skip
    if options.dtype == "uint16" and options.vocab_size > 1 << 16:
        problems.append(Problem("dtype", f"uint16 cannot hold {options.vocab_size} ids", "use int32"))
    return problems


def tokens_kept(num_tokens: int, *, sequence_length: int, over_long: OverLong) -> int:
    """How many of a document's tokens, counted from its start, reach the output.

    `truncate` keeps one full sequence, without an end-of-document id, as the first piece of a split document is.
    `error` keeps nothing: the plan is refused before (see `is_too_long`).
    """
    if num_tokens <= sequence_length or over_long == "split":
        return num_tokens
    return sequence_length if over_long == "truncate" else 0


def num_document_tokens(size_bytes: int) -> int:
    """Tokens of a document of that many bytes, its end-of-document id included. An empty file is no document."""
    return size_bytes + 1 if size_bytes else 0


def is_too_long(item: Input, options: PackingOptions) -> bool:
    """Whether `over_long: error` refuses this document of bytes."""
    return options.over_long == "error" and num_document_tokens(item.size) > options.sequence_length


def byte_units(item: Input, options: PackingOptions, *, target: int) -> Iterator[Unit]:
    """A document of bytes, cut at multiples of the sequence length when it is larger than a shard: there `split` would
    cut it anyway.
    """
    length = options.sequence_length
    kept = tokens_kept(num_document_tokens(item.size), sequence_length=length, over_long=options.over_long)
    range_bytes = max(length, target // length * length)
    if kept <= max(target, range_bytes):
        yield Unit(item, kept)
        return
    for start in range(0, item.size, range_bytes):
        end = start + range_bytes
        part = item._replace(start=start, end=end if end < item.size else -1)
        yield Unit(part, min(range_bytes, item.size - start))


def even_units(item: Input, *, target: int) -> Iterator[Unit]:
    """A file of lines, cut without looking where they end."""
    if not item.size:
        yield Unit(item, 0)
    for start in range(0, item.size, target):
        end = start + target
        yield Unit(item._replace(start=start, end=end if end < item.size else -1), min(target, item.size - start))


def plan_shards(units: Iterable[Unit], *, target: int) -> Iterator[list[Unit]]:
    """The units of each shard, in order. A shard ends before it would exceed `target` bytes."""
    shard, weight = list[Unit](), 0
    for group in _together(units):
        more = sum(unit.weight for unit in group)
        if shard and _ends_before(group[0].item, weight, more, len(shard) + len(group), target):
            yield shard
            shard, weight = [], 0
        shard += group
        weight += more
    if shard:
        yield shard


def _together(units: Iterable[Unit]) -> Iterator[list[Unit]]:
    held = list[Unit]()
    for unit in units:
        if held and not (unit.group and unit.group == held[0].group):
            yield held
            held = []
        held.append(unit)
    if held:
        yield held


def _ends_before(item: Input, weight: int, more: int, num_inputs: int, target: int) -> bool:
    if num_inputs > MAX_INPUTS:
        return True
    if not weight or not more:
        return False  # what is empty opens no shard
    if weight + more > target:
        return True
    # Past half the target one input in (target / 4) bytes ends a shard, chosen by its name: on average at 3/4.
    return weight >= target // 2 and zlib.crc32(f"{item.path}@{item.start}".encode()) * (target // 4) < more << 32


class Extract(NamedTuple):
    """The bytes [start, end) of one document that go into a shard, measured when it was planned."""

    item: Input
    start: int
    end: int
    closes: bool
    """Whether an end-of-document id follows."""


def extract(item: Input, options: PackingOptions) -> Extract:
    """What a shard reads of a document of bytes."""
    size, length = item.size, options.sequence_length
    if size < length or options.over_long == "split":  # all of it
        return Extract(item, item.start, item.stop, closes=size > 0 and item.end < 0)
    kept = tokens_kept(num_document_tokens(size), sequence_length=length, over_long=options.over_long)
    return Extract(item, item.start, min(size, kept) if item.end < 0 else item.end, closes=False)


def count_extracts(taken: Sequence[Extract], options: PackingOptions, count: Callable[[str, int], None]) -> None:
    """Tell `count` what they add to the counts of a shard."""
    sizes = [item.size for item, _, _, _ in taken if not item.start]
    num_full, num_long = len(sizes) - sizes.count(0), sum(size >= options.sequence_length for size in sizes)
    found = {
        "input_bytes": sum(end - start for _, start, end, _ in taken), "num_inputs": len(sizes),
        "num_empty": sizes.count(0), _COUNTED_AS.get(options.over_long, ""): num_long,
        "num_documents": num_full if options.over_long in ("split", "truncate") else num_full - num_long,
    }  # fmt: skip
    for name, number in found.items():
        if name and number:
            count(name, number)
