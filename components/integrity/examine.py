"""Looks at the files of one checkpoint, several at a time, each byte once. Knows no manifest and no ledger."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Event

from components.errors import Transient
from components.integrity.fault import Fault
from components.integrity.formats import Formats
from components.integrity.inspector import Inspector, TensorType
from components.integrity.one_pass import Wanted, read_through
from components.storage.base import ObjectNotFound, ObjectStore

_MAX_WORKERS = 8
"""Each holds a chunk, a few blocks and the tables of one file."""


@dataclass(frozen=True)
class Examination:
    """What a look at a checkpoint found."""

    faults: tuple[Fault, ...]
    notes: tuple[str, ...] = ()
    """What could not be looked at more closely, for example the inside of an unknown format."""
    size_bytes: int = 0
    """Bytes read."""
    num_tensors: int = 0
    types: dict[str, TensorType] = field(default_factory=dict)


def auto_workers() -> int:
    """The cores this process may use, at most 8; one when it was niced, for then the cores belong to somebody else."""
    if os.getpriority(os.PRIO_PROCESS, 0) > 0:
        return 1
    return min(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1, _MAX_WORKERS)


def examine_files(
    store: ObjectStore, folder: str, files: Sequence[Wanted], *, look_inside: bool, workers: int | None = None
) -> Examination:
    """Read `files` below `folder` through; with `look_inside` each by its format as well.

    `workers` files are read at a time (None: `auto_workers()`). Hashing and scanning leave the interpreter's lock, so
    these are threads. Raises Transient and StorageError when the store itself fails.
    """
    formats = Formats(store, folder, files if look_inside else [])
    stop = Event()

    def look(file: Wanted) -> "_Look":
        return _look(store, folder, file, formats if look_inside else None, stop)

    # The largest file first, so that no worker is left alone with it at the end.
    order = sorted(files, key=lambda file: -file.size_bytes)
    num_workers = min(workers or auto_workers(), len(files))
    if num_workers <= 1:
        looks = [look(file) for file in order]
    else:
        with ThreadPoolExecutor(num_workers) as pool:
            try:
                looks = list(pool.map(look, order))
            except BaseException:
                stop.set()
                pool.shutdown(wait=True, cancel_futures=True)
                raise
    by_path = {look.path: look for look in looks}
    faults = [*formats.faults]
    notes = [*formats.notes]
    for file in files:
        faults += by_path[file.path].faults
        notes += [f"{file.path}: {note}" for note in by_path[file.path].notes]
        if by_path[file.path].tensors is not None:
            formats.tensors[file.path] = by_path[file.path].tensors or []
    if look_inside:
        faults += formats.cross_faults(frozenset(fault.file for fault in faults))
    types = formats.types()
    return Examination(tuple(faults), tuple(notes), sum(file.size_bytes for file in files), len(types), types)


@dataclass
class _Look:
    path: str
    faults: list[Fault]
    notes: list[str] = field(default_factory=list)
    tensors: list[TensorType] | None = None
    """None when the file was not looked into."""


def _look(store: ObjectStore, folder: str, file: Wanted, formats: Formats | None, stop: Event) -> _Look:
    inspector: Inspector | None = None
    try:
        inspector = formats.inspector(file.path) if formats is not None else None
        look = _Look(file.path, read_through(store, folder, file, inspector, stop=stop))
    except ObjectNotFound:
        return _Look(file.path, [Fault(file.path, "disappeared while it was being read")])
    except OSError as error:
        raise Transient(
            "StorageNotAnswering", f"reading {file.path} broke off: {error}", "check the storage"
        ) from error
    finally:
        if inspector is not None:
            inspector.close()
    if inspector is not None:
        look.notes = inspector.notes
        look.tensors = inspector.tensors if inspector.tensors or not inspector.notes else None
    elif formats is not None and not formats.is_table(file.path):
        look.notes = ["digest only, its format is not looked into"]
    return look
