"""Whole files as samples: each by itself, those that share a name together, or each with the label of its folder."""

import functools
import itertools
from collections.abc import Iterator, Sequence

from components.dataset.batches import Column, Sample, Value
from components.dataset.blobs import Blobs, Changed, Unreadable
from components.dataset.inputs import Input
from components.dataset.sources.findings import Findings
from components.dataset.sources.pieces import joined, pieces_of, rows_of, whole

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


def samples(
    inputs: Sequence[Input], blobs: Blobs, findings: Findings, *, group: bool
) -> Iterator[tuple[Input, Sample]]:
    """A sample a file, or with `group` a sample for all files of one name. A file that fails fails its sample."""
    taken = pieces_of(inputs, blobs, whole)
    for key, run in itertools.groupby(taken, key=lambda one: split_name(one[0].path)[0] if group else one[0].path):
        names, values, is_whole = list[str](), list[Value](), True
        label: int | None = None
        for item, pieces in run:
            findings.count("num_inputs")
            data = joined(pieces)
            if isinstance(data, Changed | Unreadable):
                findings.failed(data)
                is_whole = False
                continue
            findings.count("input_bytes", len(data))
            own, name = split_name(item.path)
            label = item.extra["label"] if item.extra else None
            if name in names:
                findings.reject(item.path, f"another file is the field {name!r} of {key!r} already")
                continue
            names.append(name)
            values.append(data)
        if names and is_whole:
            if label is not None:
                values.append(b"%d" % label)
            yield item, Sample(own, _columns(tuple(names), label is not None), values)


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
def _columns(names: tuple[str, ...], is_labelled: bool) -> tuple[Column, ...]:
    columns = tuple(Column(name, "bytes") for name in names)
    return (*columns, Column(LABEL, "int")) if is_labelled else columns
