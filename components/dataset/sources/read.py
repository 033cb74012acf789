"""The records of a shard's inputs: as documents to be packed into sequences, or as samples."""

from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby, starmap
from typing import NamedTuple

from components.contracts.dataset import PackingOptions, ReadOptions
from components.dataset.batches import Column, Run, Value, conform, runs_of
from components.dataset.blobs import READ_BYTES, Blobs, Changed, Unreadable
from components.dataset.inputs import Input
from components.dataset.planning import Extract, count_extracts, extract
from components.dataset.sources import files, json_lines, lines, tar
from components.dataset.sources.findings import Findings, damaged
from components.dataset.sources.pieces import Failure, pieces_of, stretches, wholes_of
from components.dataset.tokenizer import BYTES

_MEASURED_BYTES, _MEASURED = 64 << 10, 256
"""So many small files are handed over together: every call for a file by itself would be felt."""


class Documents(NamedTuple):
    """Consecutive documents of one input."""

    item: Input
    places: Sequence[int]
    texts: Sequence[Value]


class Measured(NamedTuple):
    """Documents of bytes that were measured when they were planned."""

    texts: list[Value]
    closes: list[bool]
    """Whether an end-of-document id follows, for each."""


class Part(NamedTuple):
    """A piece of such a document, or all of it."""

    data: Value
    is_last: bool
    closes: bool
    """Whether an end-of-document id follows the last one."""


def documents(
    inputs: Sequence[Input], blobs: Blobs, findings: Findings, read: ReadOptions, options: PackingOptions
) -> Iterator[Documents | Measured | Part]:
    """The documents of format tokens, in order."""
    for kind, run in groupby(inputs, key=lambda item: item.kind):
        some = list(run)
        if kind in ("file", "grouped", "labelled"):
            is_bytes = options.tokenizer == BYTES
            yield from _measured(some, blobs, findings, options) if is_bytes else _whole(some, blobs, findings)
        elif kind == "row":
            for item, sample in files.rows(some, blobs, findings):
                yield Documents(item, (item.start,), (sample.values[0],))
        elif kind == "lines":
            yield from starmap(Documents, lines.lines(some, blobs, findings))
        elif kind == "jsonl":
            found = json_lines.texts(some, blobs, findings, text_field=read.text_field or "text")
            yield from starmap(Documents, found)
        else:
            yield from _fields(some, blobs, findings, read)


def samples(
    inputs: Sequence[Input], blobs: Blobs, findings: Findings, read: ReadOptions, schema: tuple[Column, ...]
) -> Iterator[Run]:
    """The samples of all other formats, in order; with the columns of `schema` if it has any."""
    for kind, some in groupby(inputs, key=lambda item: item.kind):
        for run in _runs(kind, list(some), blobs, findings, read):
            if not schema:
                yield run
                continue
            yield from conform(run, schema, may_have_more=bool(read.fields), reject=partial(_reject, run, findings))


def _reject(run: Run, findings: Findings, number: int, reason: str) -> None:
    findings.reject(run.input_of(number).path, reason, offset=run.places[number])


def _runs(kind: str, inputs: list[Input], blobs: Blobs, findings: Findings, read: ReadOptions) -> Iterator[Run]:
    if kind == "tar":
        return tar.runs(inputs, blobs, findings)
    if kind == "lines":
        return lines.text_runs(inputs, blobs, findings)
    if kind == "jsonl":
        return json_lines.runs(inputs, blobs, findings, key_field=read.key_field)
    if kind == "parquet":
        from components.dataset.sources import parquet

        names = [field.name for field in read.fields]
        return parquet.runs(inputs, blobs, findings, key_field=read.key_field, names=names)
    if kind == "row":
        return runs_of((item, item.start, sample) for item, sample in files.rows(inputs, blobs, findings))
    return files.runs(inputs, blobs, findings, group=kind == "grouped")


def _fields(inputs: list[Input], blobs: Blobs, findings: Findings, read: ReadOptions) -> Iterator[Documents]:
    """One field of every sample of a tar, or of every row of a Parquet file."""
    if inputs[0].kind == "tar":
        field, found = read.text_field or "txt", tar.runs(inputs, blobs, findings)
    else:
        from components.dataset.sources import parquet

        field = read.text_field or "text"
        found = parquet.runs(inputs, blobs, findings, key_field=None, names=(field,))
    for item, places, (_, columns, values), _ in found:
        for column, texts in zip(columns, values, strict=True):
            if column.name == field:
                yield Documents(item, places, texts)
                break
        else:
            for place in places:
                findings.reject(item.path, f"it has no field {field!r}", offset=place)


def _whole(inputs: list[Input], blobs: Blobs, findings: Findings) -> Iterator[Documents]:
    for item, data in wholes_of(inputs, blobs):
        findings.count("num_inputs")
        if isinstance(data, Failure):
            findings.failed(data)
        else:
            findings.count("input_bytes", len(data))
            yield Documents(item, (0,), (data,))


def _measured(
    inputs: list[Input], blobs: Blobs, findings: Findings, options: PackingOptions
) -> Iterator[Measured | Part]:
    """Documents of bytes. Small files of this machine, which are quickly read, many at a time."""
    for is_small, some in groupby(inputs, key=lambda item: blobs.in_flight <= 1 and item.size <= READ_BYTES):
        yield from (_small if is_small else _in_pieces)(list(some), blobs, findings, options)


def _small(inputs: list[Input], blobs: Blobs, findings: Findings, options: PackingOptions) -> Iterator[Measured]:
    found, taken, num_bytes = Measured([], []), list[Extract](), 0
    for item in inputs:
        one = extract(item, options)
        try:
            data = blobs.read(item, one.start, one.end)
        except (Changed, Unreadable) as failure:
            findings.failed(failure)
            findings.count("num_inputs", not item.start)
            continue
        taken.append(one)
        if data:
            found.texts.append(data)
            found.closes.append(one.closes)
            num_bytes += len(data)
        if num_bytes >= _MEASURED_BYTES or len(taken) >= _MEASURED:
            count_extracts(taken, options, findings.count)
            yield found
            found, taken, num_bytes = Measured([], []), [], 0
    count_extracts(taken, options, findings.count)
    yield found


def _in_pieces(inputs: list[Input], blobs: Blobs, findings: Findings, options: PackingOptions) -> Iterator[Part]:
    asked = deque[Extract]()

    def ranges(item: Input) -> Iterator[tuple[int, int]]:
        taken = extract(item, options)
        asked.append(taken)
        return stretches(taken.start, taken.end, READ_BYTES)

    for item, pieces in pieces_of(inputs, blobs, ranges):
        held, taken = next(pieces).data, asked.popleft()
        if isinstance(held, Changed | Unreadable):
            findings.failed(held)
            if not item.start:
                findings.count("num_inputs")
            continue
        count_extracts([taken], options, findings.count)
        if taken.end == taken.start:
            continue
        for _, data in pieces:
            if isinstance(data, Changed):
                findings.failed(data)
                return  # of a document begun the rest is missing; the caller refuses the shard
            if isinstance(data, Unreadable):
                raise damaged(blobs.uri_of(item.path), data.reason, data.offset)
            yield Part(held, is_last=False, closes=taken.closes)
            held = data
        yield Part(held, is_last=True, closes=taken.closes)
