"""Whole files as samples: each by itself, those that share a name together, or each with the label of its folder."""

import functools
from collections.abc import Iterator, Sequence

from components.dataset.batches import BATCH_BYTES, BATCH_SAMPLES, Batch, Column, Run, Sample, Value
from components.dataset.blobs import Blobs, Changed, Unreadable
from components.dataset.inputs import Input
from components.dataset.sources.findings import Findings
from components.dataset.sources.pieces import Failure, rows_of, wholes_of

NO_SUFFIX = "bin"
"""The field of a file whose name has no suffix."""
LABEL = "cls"


def split_name(path: str) -> tuple[str, str]:
    """Key and field of a file: its path up to the first dot of its name, and what follows that dot."""
    folder, slash, name = path.rpartition("/")
    stem, dot, suffix = name.partition(".")
    if not stem:  # .hidden: a name of its own, as the dot is part of it
        stem, dot, suffix = name.lstrip(".").partition(".")
        stem = f"_{stem}"
    return f"{folder}{slash}{stem}", suffix.lower() if dot and suffix else NO_SUFFIX


def group_of(path: str) -> str:
    """Files with the same are one sample. In the order of paths they are neighbours."""
    return split_name(path)[0]


def label_of(path: str) -> str:
    """The folder that labels a file; empty when it lies in none."""
    return path.partition("/")[0] if "/" in path else ""


def runs(inputs: Sequence[Input], blobs: Blobs, findings: Findings, *, group: bool) -> Iterator[Run]:
    """A sample a file, or with `group` a sample for all files of one name. A file that fails fails its sample."""
    items, keys, columns, rows, size = list[Input](), list[str](), tuple[Column, ...](), list[list[Value]](), 0
    for item, key, has, row in _samples(inputs, blobs, findings, group):
        if keys and (has != columns or size > BATCH_BYTES or len(keys) >= BATCH_SAMPLES):
            yield _run(items, keys, columns, rows)
            items, keys, rows, size = [], [], [], 0
        columns = has
        items.append(item)
        keys.append(key)
        rows.append(row)
        size += sum(map(len, row))
    if keys:
        yield _run(items, keys, columns, rows)


def _run(items: list[Input], keys: list[str], columns: tuple[Column, ...], rows: list[list[Value]]) -> Run:
    values = [list(column) for column in zip(*rows, strict=True)]
    return Run(items[0], [0] * len(keys), Batch(keys, columns, values), items)


_Row = tuple[Input, str, tuple[Column, ...], list[Value]]
"""The last file of a sample, its key, columns and values."""


def _samples(inputs: Sequence[Input], blobs: Blobs, findings: Findings, group: bool) -> Iterator[_Row]:
    """There are many, and none of them large: every call for each is felt."""
    names, row, is_whole, num_bytes = tuple[str, ...](), list[Value](), True, 0
    last, own, of = inputs[0], "", ""
    for item, data in wholes_of(inputs, blobs):
        key, name = split_name(item.path)
        if (mark := key if group else item.path) != of:
            if names and is_whole:
                yield _row(last, own, names, row)
            names, row, is_whole, own, of = (), [], True, key, mark
        last = item
        if isinstance(data, Failure):
            findings.failed(data)
            is_whole = False
            continue
        num_bytes += len(data)
        if name in names:
            findings.reject(item.path, f"another file is the field {name!r} of {key!r} already")
            continue
        names = (*names, name)
        row.append(data)
    if names and is_whole:
        yield _row(last, own, names, row)
    findings.count("num_inputs", len(inputs))
    findings.count("input_bytes", num_bytes)


def _row(item: Input, key: str, names: tuple[str, ...], row: list[Value]) -> _Row:
    if item.extra is None:
        return item, key, _columns(names), row
    return item, key, (*_columns(names), Column(LABEL, "int")), [*row, b"%d" % item.extra["label"]]


def rows(inputs: Sequence[Input], blobs: Blobs, findings: Findings) -> Iterator[tuple[Input, Sample]]:
    """The rows of a manifest: a range of a file or object each, with fields of its own."""
    for item, data in rows_of(inputs, blobs):
        findings.count("num_inputs")
        if isinstance(data, Changed | Unreadable):
            findings.failed(data)
            continue
        findings.count("input_bytes", len(data))
        key, field = split_name(item.path.partition("://")[2] or item.path.lstrip("/"))
        extra = item.extra or {}
        more = extra.get("fields", [])
        columns = (Column(field, "bytes"), *(Column(name, kind) for name, kind, _ in more))
        is_part = item.start > 0 or item.stop < item.size
        named = extra.get("key") or (f"{key}/{item.start:012d}" if is_part else key)
        yield item, Sample(named, columns, (data, *(value.encode() for _, _, value in more)))


@functools.lru_cache(maxsize=1024)
def _columns(names: tuple[str, ...]) -> tuple[Column, ...]:
    return tuple(Column(name, "bytes") for name in names)
