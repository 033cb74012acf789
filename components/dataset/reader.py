"""Read a packed data set in a training program: numpy and the standard library only.

    data = PackedDataset(os.environ["ARGOSY_DATA"])
    cursor = data.cursor(seed=1234)                       # or data.cursor(seed=1234, state=saved["cursor"])
    rows = data.batch(cursor, global_batch=32, rank=rank, world_size=world_size)
    inputs, targets = inputs_and_targets(rows, end_of_document=data.end_of_document)
    cursor = cursor.advance(32)                           # save cursor.state() with the checkpoint

The order of samples is one endless line: epoch after epoch, each shuffled by (seed, epoch). A cursor is a place in that
line. A global batch is the next `global_batch` samples of it, cut into `world_size` equal slices: the same samples on
2 ranks or on 16, and a resumed run sees exactly what an untouched one would have seen.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from components.dataset.shuffle import shuffled

IGNORED_TARGET = -100
"""What `torch.nn.functional.cross_entropy` leaves out by default."""

Indices = npt.NDArray[np.int64]


class DatasetDamaged(Exception):
    """The data set on disk is not what its manifest says."""


@dataclass(frozen=True)
class Cursor:
    """A place in the endless line of samples. `position` counts samples taken by all ranks together."""

    data_version: str
    seed: int
    position: int = 0

    def advance(self, num_samples: int) -> "Cursor":
        """The place `num_samples` further; once a step, by the global batch."""
        return Cursor(self.data_version, self.seed, self.position + num_samples)

    def state(self) -> dict[str, Any]:
        """JSON values that `PackedDataset.cursor` takes back."""
        return {"data_version": self.data_version, "seed": self.seed, "position": self.position}


class PackedDataset:
    """The sequences of a shard manifest, memory-mapped: opening costs no reading, workers share the page cache."""

    def __init__(self, manifest_path: str | os.PathLike[str]) -> None:
        """Open and check sizes. Raises DatasetDamaged naming every file that is missing or has another size."""
        self.path = Path(manifest_path)
        manifest = _read_manifest(self.path)
        self.data_version: str = manifest["data_version"]
        options = manifest["options"]
        self.sequence_length: int = options["sequence_length"]
        self.vocab_size: int = options["vocab_size"]
        self.end_of_document: int = options["end_of_document"]
        self._dtype = np.dtype(options["dtype"]).newbyteorder("<")
        _check_sizes(self.path, manifest["shards"], self.sequence_length * self._dtype.itemsize)
        self._shards = [self._map(shard) for shard in manifest["shards"]]
        self._ends = np.cumsum([len(shard) for shard in self._shards], dtype=np.int64)
        self._begins = np.concatenate(([0], self._ends[:-1]))
        if not len(self):
            raise DatasetDamaged(f"{self.path} holds no sequence")

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def __reduce__(self) -> tuple[type["PackedDataset"], tuple[Path]]:
        return PackedDataset, (self.path,)  # a spawned worker maps the files again instead of receiving their content

    def sequence(self, index: int) -> npt.NDArray[Any]:
        """`sequence_length` tokens, a view into the file. Raises IndexError outside [0, len)."""
        if not 0 <= index < len(self):
            raise IndexError(f"sequence {index} of {len(self)}")
        shard = int(np.searchsorted(self._ends, index, side="right"))
        row: npt.NDArray[Any] = self._shards[shard][index - int(self._ends[shard])]
        return row

    def order(self, *, seed: int, epoch: int) -> Indices:
        """The whole permutation of one epoch; `indices` computes only the places it needs."""
        return shuffled(np.arange(len(self), dtype=np.int64), len(self), seed=seed, epoch=epoch)

    def cursor(self, *, seed: int, state: Mapping[str, Any] | None = None) -> Cursor:
        """The start of the line, or the place `state` names. Raises ValueError when it is a place in another line."""
        if state is None:
            return Cursor(self.data_version, seed)
        found = Cursor(state["data_version"], state["seed"], state["position"])
        if not isinstance(found.position, int) or found.position < 0:
            raise ValueError(f"the cursor's position is {found.position!r}, not a count of samples")
        if (found.data_version, found.seed) != (self.data_version, seed):
            raise ValueError(
                f"the cursor belongs to {found.data_version} with seed {found.seed}, "
                f"not to {self.data_version} with seed {seed}"
            )
        return found

    def indices(self, cursor: Cursor, *, global_batch: int, rank: int = 0, world_size: int = 1) -> Indices:
        """Which sequences this rank takes for the step at `cursor`: its slice of the next `global_batch` samples."""
        if global_batch % world_size or not 0 <= rank < world_size:
            raise ValueError(
                f"global batch {global_batch} on rank {rank} of {world_size}: it must be a multiple of the world size"
            )
        share = global_batch // world_size
        start = cursor.position + rank * share
        positions = np.arange(start, start + share, dtype=np.int64)
        epochs, places = np.divmod(positions, len(self))
        chosen = np.empty(share, dtype=np.int64)
        for epoch in np.unique(epochs):  # one, or two where the batch reaches into the next epoch
            mine = epochs == epoch
            chosen[mine] = shuffled(places[mine], len(self), seed=cursor.seed, epoch=int(epoch))
        return chosen

    def batch(self, cursor: Cursor, *, global_batch: int, rank: int = 0, world_size: int = 1) -> npt.NDArray[Any]:
        """The rank's sequences for the step at `cursor`: an array (global_batch / world_size, sequence_length)."""
        chosen = self.indices(cursor, global_batch=global_batch, rank=rank, world_size=world_size)
        rows = np.empty((len(chosen), self.sequence_length), dtype=self._dtype)
        shards = np.searchsorted(self._ends, chosen, side="right")
        for place, (index, shard) in enumerate(
            zip((chosen - self._begins[shards]).tolist(), shards.tolist(), strict=True)
        ):
            rows[place] = self._shards[shard][index]
        return rows

    def _map(self, shard: Mapping[str, Any]) -> npt.NDArray[Any]:
        shape = (int(shard["num_sequences"]), self.sequence_length)
        if not shape[0]:
            return np.empty(shape, dtype=self._dtype)  # an empty file cannot be mapped
        return np.memmap(self.path.parent / shard["files"][0]["path"], dtype=self._dtype, mode="r", shape=shape)


def inputs_and_targets(rows: npt.NDArray[Any], *, end_of_document: int) -> tuple[Indices, Indices]:
    """Rows of L tokens as int64 inputs and targets of L - 1; padding becomes IGNORED_TARGET.

    Padding is end-of-document after end-of-document: documents are never empty, so nothing else looks like it.
    """
    tokens = rows.astype(np.int64)
    inputs, targets = tokens[:, :-1], tokens[:, 1:].copy()
    targets[(inputs == end_of_document) & (targets == end_of_document)] = IGNORED_TARGET
    return inputs, targets


def _read_manifest(path: Path) -> dict[str, Any]:
    try:
        manifest = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise DatasetDamaged(f"{path} cannot be read as a shard manifest: {error}") from error
    if not isinstance(manifest, dict) or (manifest.get("kind"), manifest.get("version")) != ("shard-manifest", 1):
        raise DatasetDamaged(f"{path} is not a shard manifest of version 1")
    return manifest


def _check_sizes(path: Path, shards: list[dict[str, Any]], sequence_bytes: int) -> None:
    faults = []
    for shard in shards:
        for file in shard["files"]:
            place = path.parent / file["path"]
            size = place.stat().st_size if place.is_file() else None
            if size != file["size_bytes"]:
                faults.append(f"{place}: {'missing' if size is None else f'{size} bytes'}, not {file['size_bytes']}")
        if shard["files"][0]["size_bytes"] != shard["num_sequences"] * sequence_bytes:
            faults.append(f"{shard['files'][0]['path']}: not {shard['num_sequences']} sequences long")
    if faults:
        raise DatasetDamaged(f"{path} does not match its files:\n  " + "\n  ".join(faults))
