"""Read what a shard takes from each input, and notice an input that is no longer what the plan saw."""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from components.contracts.dataset import BadRecord
from components.dataset.packing import Segment
from components.dataset.planning import Extract
from components.errors import Problem


@dataclass
class Reading:
    """The outcome of reading the extracts of one shard."""

    segments: list[Segment] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    """Fields of PackingCounts, of the inputs that could be read."""
    bad_records: list[BadRecord] = field(default_factory=list)
    changed: list[Problem] = field(default_factory=list)
    """Inputs that are gone or differ in size or modification time from the plan."""


def read_extracts(folder: str, extracts: Iterable[Extract]) -> Reading:
    """Read every extract below `folder`; none is left out silently, each ends in one of the four lists."""
    reading = Reading()
    for extract in extracts:
        path = os.path.join(folder, extract.planned.path)
        try:
            read = _read(path, extract)
        except FileNotFoundError:
            reading.changed.append(Problem(path, "is gone since the plan was made"))
            continue
        except OSError as error:
            reading.bad_records.append(_bad(extract, error))
            continue
        if isinstance(read, Problem):
            reading.changed.append(read)
            continue
        for name, number in extract.counts.items():
            reading.counts[name] = reading.counts.get(name, 0) + number
        if read.num_tokens:
            reading.segments.append(read)
    return reading


def _read(path: str, extract: Extract) -> Segment | Problem:
    planned = extract.planned
    buffer = np.empty(extract.end - extract.start, dtype=np.uint8)
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)  # io.open costs several times as much, felt on small files
    try:
        num_read, view = 0, buffer.data
        while num_read < len(buffer):
            more = os.preadv(descriptor, [view[num_read:]], extract.start + num_read)
            if not more:
                break
            num_read += more
        status = os.fstat(descriptor)  # after the last byte: a change while we read shows too
    finally:
        os.close(descriptor)
    if status.st_size != planned.size_bytes or num_read < len(buffer):
        return Problem(path, f"had {planned.size_bytes} bytes when the plan was made, now {status.st_size}")
    if status.st_mtime_ns != planned.mtime_ns:
        return Problem(path, "was modified since the plan was made")
    return Segment(buffer, ends_document=extract.ends_document)


def _bad(extract: Extract, error: OSError) -> BadRecord:
    reason = error.strerror or str(error)
    whole = extract.start == 0 and extract.ends_document
    return BadRecord(
        path=extract.planned.path,
        reason=reason if whole else f"{reason} (bytes {extract.start} to {extract.end})",
    )
