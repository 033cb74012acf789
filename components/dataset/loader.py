"""Batches of a packed data set, read ahead by a thread; numpy and the standard library only.

    data = PackedDataset(os.environ["ARGOSY_DATA"])
    place = data.cursor(seed=1234, state=saved)              # saved: None, or what `state()` gave
    with Loader(data, place, global_batch=32, rank=rank, world_size=world_size) as loader:
        for batch in loader:                                  # endless: epoch after epoch
            train_on(batch.inputs, batch.targets)             # batch.wait_seconds: how long the data kept us waiting
            save(loader.state())                              # with the checkpoint of this step

What is resumed is exact: the state counts samples that all ranks together took, and the order of samples is a function
of (data version, seed, epoch) alone. So a killed run goes on with the very next sample, on the same ranks or on any
number of them that divides the global batch; what was read ahead and not taken was never counted. Memory is bounded by
`read_ahead` batches besides the one in use.
"""

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from components.dataset.boundaries import cu_seqlens, document_ids, segment_starts
from components.dataset.reader import Cursor, Indices, PackedDataset, inputs_and_targets


@dataclass(frozen=True)
class Batch:
    """What one rank trains on in one step."""

    rows: npt.NDArray[Any]
    """(share of the global batch, sequence_length) tokens as stored."""
    inputs: Indices
    targets: Indices
    """(…, sequence_length - 1) int64; IGNORED_TARGET where there is nothing to predict."""
    end_of_document: int
    after: Cursor
    """The place behind the step that this batch is part of."""
    wait_seconds: float = 0.0
    """How long the training waited for it."""

    @cached_property
    def document_ids(self) -> npt.NDArray[np.int32]:
        """Of each input token: which document of its row it belongs to, from 0; padding is -1."""
        return document_ids(self.rows, end_of_document=self.end_of_document)[:, :-1]

    @cached_property
    def cu_seqlens(self) -> npt.NDArray[np.int32]:
        """Where documents begin in the flattened inputs, and their end: what variable-length attention takes."""
        return cu_seqlens(segment_starts(self.rows, end_of_document=self.end_of_document)[:, :-1])


class Loader:
    """Iterates over this rank's batches from `start` on, for ever. Close it, or leave its `with`, to end its thread."""

    def __init__(
        self, data: PackedDataset, start: Cursor, *, global_batch: int, rank: int = 0, world_size: int = 1,
        read_ahead: int = 2,
    ) -> None:  # fmt: skip
        """`read_ahead` batches are read before they are asked for; 0: none, and no thread.

        Raises ValueError for a global batch that the world size does not divide.
        """
        data.indices(start, global_batch=global_batch, rank=rank, world_size=world_size)
        self._data, self._place = data, start
        self._global_batch, self._rank, self._world_size = global_batch, rank, world_size
        self._thread = _ReadAhead(self._batches(start), read_ahead) if read_ahead else None
        self._here = self._batches(start) if self._thread is None else None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Batch:
        began = time.perf_counter()
        if self._here is not None:
            batch = next(self._here)
        else:
            assert self._thread is not None
            batch = self._thread.take()
        self._place = batch.after
        return Batch(
            batch.rows, batch.inputs, batch.targets, batch.end_of_document, batch.after,
            wait_seconds=time.perf_counter() - began,
        )  # fmt: skip

    def state(self) -> dict[str, Any]:
        """JSON values from which `PackedDataset.cursor` finds the place behind the last batch taken.

        `position` counts samples since the first epoch began; `epoch` and `samples` say the same in two numbers.
        """
        epoch, samples = divmod(self._place.position, len(self._data))
        return {**self._place.state(), "epoch": epoch, "samples": samples}

    def close(self) -> None:
        """End reading ahead; the state stays."""
        if self._thread is not None:
            self._thread.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _batches(self, place: Cursor) -> Iterator[Batch]:
        data = self._data
        while True:
            rows = data.batch(place, global_batch=self._global_batch, rank=self._rank, world_size=self._world_size)
            inputs, targets = inputs_and_targets(rows, end_of_document=data.end_of_document)
            place = place.advance(self._global_batch)
            yield Batch(rows, inputs, targets, data.end_of_document, place)


class _ReadAhead:
    """Runs an iterator in a thread, at most so many items ahead."""

    def __init__(self, items: Iterator[Batch], num_items: int) -> None:
        self._items = items
        self._room = threading.Semaphore(num_items)
        self._ready: SimpleQueue[Batch | BaseException] = SimpleQueue()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="read-ahead", daemon=True)
        self._thread.start()

    def take(self) -> Batch:
        """The next item. Raises what the iterator raised, and RuntimeError once closed."""
        if self._is_closed:
            raise RuntimeError("the loader is closed")
        item = self._ready.get()
        if isinstance(item, BaseException):
            self._ready.put(item)  # whoever asks again hears it again
            raise item
        self._room.release()
        return item

    def close(self) -> None:
        self._is_closed = True
        self._room.release()
        self._thread.join()

    def _run(self) -> None:
        try:
            while True:
                self._room.acquire()
                if self._is_closed:
                    return
                self._ready.put(next(self._items))
        except BaseException as error:
            self._ready.put(error)
