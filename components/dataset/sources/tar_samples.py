"""Files of a tar become samples, as WebDataset means them: those in a row whose names agree up to the first dot."""

from collections.abc import Iterable, Iterator
from operator import ne

from components.dataset.batches import Batch, Column, Run, Sample, Value, runs_of
from components.dataset.formats.webdataset import split_member
from components.dataset.inputs import Input
from components.dataset.sources.findings import Findings

File = tuple[str, int, Value]
"""A member that is a file: its name, where its first header begins, its content."""


def runs_from(
    item: Input, files: list[File], findings: Findings, columns_of: dict[tuple[str, ...], tuple[Column, ...]]
) -> Iterator[Run]:
    """The samples of some files, complete."""

    def columns(names: tuple[str, ...]) -> tuple[Column, ...]:
        if names not in columns_of:
            columns_of[names] = tuple(Column(name, "bytes") for name in names)
        return columns_of[names]

    base = item.path.rpartition(".")[0]
    if files and (alike := _alike(files)):
        keys, fields = alike
        width = len(fields)
        values = [[data for _, _, data in files[place::width]] for place in range(width)]
        batch = Batch([f"{base}/{key}" for key in keys], columns(fields), values)
        yield Run(item, [start for _, start, _ in files[::width]], batch)
        return
    yield from runs_of(
        (item, start, Sample(f"{base}/{key}", columns(tuple(found)), list(found.values())))
        for key, start, found in _grouped(item, files, findings)
    )


def _alike(files: list[File]) -> tuple[list[str], tuple[str, ...]] | None:
    """The keys of samples that all have the same fields in the same order, and these; None when that is not so."""
    parts = [name.partition(".") for name, _, _ in files]
    keys = [key for key, _, _ in parts]
    fields = [field for _, _, field in parts]
    width = next((place for place, key in enumerate(keys) if key != keys[0]), len(keys))
    own = keys[::width]
    is_alike = (
        fields == fields[:width] * len(own)
        and all(keys[place::width] == own for place in range(1, width))
        and len(set(fields[:width])) == width
        and all(map(str.islower, fields[:width]))
        and all(map(ne, own, own[1:]))
        and not any(not key or key[0] == "_" or "/" in key for key in own)
        and not any("/" in field for field in fields[:width])
    )
    return (own, tuple(fields[:width])) if is_alike else None


def last_sample(files: list[File]) -> int:
    """Where the last sample begins: what is read next may belong to it."""
    key = None
    for place in range(len(files) - 1, -1, -1):
        parts = split_member(files[place][0])
        if parts is None:
            continue
        if key is not None and parts[0] != key:
            return place + 1
        key = parts[0]
    return 0


def _grouped(item: Input, files: Iterable[File], findings: Findings) -> Iterator[tuple[str, int, dict[str, Value]]]:
    key, begin, fields = "", 0, dict[str, Value]()
    for name, start, data in files:
        parts = split_member(name)
        if parts is None:
            reason = f"{name!r} is no field of a sample: its name has no dot, or is one for notes"
            findings.reject(item.path, reason, offset=start)
            continue
        found, field = parts
        if found != key and fields:
            yield key, begin, fields
            fields = {}
        if not fields:
            key, begin = found, start
        if field in fields:
            findings.reject(item.path, f"{name!r} gives its sample the same field twice", offset=start)
            continue
        fields[field] = data
    if fields:
        yield key, begin, fields
