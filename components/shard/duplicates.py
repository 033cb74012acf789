"""Finds keys that two samples of a data set share, where users name the samples: by hash, some of all at a time."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from components.contracts.dataset import StoredFile
from components.contracts.layout import shards_folder
from components.errors import Problem
from components.storage.base import ObjectStore

KEYS_AT_ONCE = 4 << 20
"""Held in memory together; 8 bytes each."""


def duplicate_keys(store: ObjectStore, files: Sequence[StoredFile]) -> list[Problem]:
    """Pairs of samples with one key, as problems; `files` hold a shard's hashes each, in the order of its samples."""
    total = sum(file.size_bytes for file in files) // 8
    bits = max(0, math.ceil(math.log2(max(1, total) / KEYS_AT_ONCE)))
    problems = list[Problem]()
    for part in range(1 << bits):
        problems += _among(list(_hashes(store, files, part, bits)), files)
    return problems


def _hashes(store: ObjectStore, files: Sequence[StoredFile], part: int, bits: int) -> Iterator[tuple[Any, Any, Any]]:
    """For each file the hashes that begin with the bits of `part`, the file's number, and their places in it."""
    for number, file in enumerate(files):
        found = np.frombuffer(store.read(f"{shards_folder()}/{file.path}"), dtype="<u8")
        places = np.flatnonzero(found >> np.uint64(64 - bits) == part) if bits else np.arange(len(found))
        yield found[places], np.full(len(places), number), places


def _among(found: Sequence[tuple[Any, Any, Any]], files: Sequence[StoredFile]) -> list[Problem]:
    if not found:
        return []
    hashes, numbers, places = (np.concatenate(column) for column in zip(*found, strict=True))
    order = np.argsort(hashes, kind="stable")
    same = np.flatnonzero(hashes[order][1:] == hashes[order][:-1])
    problems = []
    for one, other in zip(order[same].tolist(), order[same + 1].tolist(), strict=True):
        where = f"sample {places[other]} of {files[numbers[other]].path.rpartition('.')[0]}"
        problems.append(
            Problem(where, f"has the key of sample {places[one]} of {files[numbers[one]].path.rpartition('.')[0]}")
        )
    return problems
