"""Batches as a training program takes them: none lost, none twice, whatever was killed and on however many ranks."""

import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.dataset.loader import Loader
from components.dataset.reader import Cursor, PackedDataset
from tests.components.dataset.packed import numbered, write

END = 256


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> PackedDataset:
    """23 sequences over four shards, one of them empty; sequence i holds four times i."""
    folder = tmp_path_factory.mktemp("data") / "set"
    return PackedDataset(write(folder, [numbered(0, 10), [], numbered(10, 1), numbered(11, 12)]))


def line(data: PackedDataset, *, seed: int, num_samples: int) -> list[int]:
    """The first samples of the endless line, from the permutations themselves."""
    epochs = range(num_samples // len(data) + 1)
    return [index for epoch in epochs for index in data.order(seed=seed, epoch=epoch).tolist()][:num_samples]


def take(
    data: PackedDataset, place: Cursor, *, global_batch: int, world_size: int, num_steps: int, read_ahead: int = 2
) -> tuple[list[int], dict[str, object]]:
    """What all ranks together take in so many steps, in order, and what rank 0 saves."""
    loaders = [
        Loader(data, place, global_batch=global_batch, rank=rank, world_size=world_size, read_ahead=read_ahead)
        for rank in range(world_size)
    ]
    taken = []
    for _ in range(num_steps):
        for loader in loaders:
            taken += next(loader).rows[:, 0].tolist()
    states = [loader.state() for loader in loaders]
    for loader in loaders:
        loader.close()
    assert states == [states[0]] * world_size
    return taken, json.loads(json.dumps(states[0]))


PHASES = st.lists(
    st.tuples(st.sampled_from([1, 2, 4]), st.integers(0, 6), st.integers(0, 3)), min_size=1, max_size=6
)  # fmt: skip


@given(phases=PHASES, share=st.integers(1, 3), seed=st.integers(0, 2**63 - 1))
@settings(max_examples=30, deadline=None)
def test_no_sample_is_lost_or_repeated_across_kills_and_changes_of_the_world_size(
    data: PackedDataset, phases: list[tuple[int, int, int]], share: int, seed: int
) -> None:
    """Each phase: so many ranks make steps up to a checkpoint, then steps that a kill undoes."""
    lived, state = list[int](), None
    for world_size, kept, lost in phases:
        place = data.cursor(seed=seed, state=state)
        taken, state = take(data, place, global_batch=4 * share, world_size=world_size, num_steps=kept)
        lived += taken
        take(data, data.cursor(seed=seed, state=state), global_batch=4 * share, world_size=world_size, num_steps=lost)

    assert lived == line(data, seed=seed, num_samples=len(lived))


@given(batches=st.lists(st.sampled_from([1, 2, 3, 5, 8, 30]), min_size=1, max_size=8))
@settings(max_examples=20, deadline=None)
def test_another_global_batch_goes_on_at_the_same_sample(data: PackedDataset, batches: list[int]) -> None:
    taken, state = list[int](), None
    for global_batch in batches:
        more, state = take(
            data, data.cursor(seed=5, state=state), global_batch=global_batch, world_size=1, num_steps=2, read_ahead=1
        )
        taken += more

    assert taken == line(data, seed=5, num_samples=2 * sum(batches))


def test_what_was_read_ahead_is_not_in_the_state(data: PackedDataset) -> None:
    with Loader(data, data.cursor(seed=1), global_batch=8, read_ahead=3) as loader:
        for _ in range(4):
            next(loader)
        time.sleep(0.05)

        assert loader.state() == {"data_version": "d-1", "seed": 1, "position": 32, "epoch": 1, "samples": 9}


@pytest.mark.parametrize("read_ahead", [0, 1, 4])
def test_reading_ahead_changes_no_batch(data: PackedDataset, read_ahead: int) -> None:
    taken, _ = take(
        data, data.cursor(seed=7), global_batch=6, world_size=2, num_steps=9, read_ahead=read_ahead
    )  # fmt: skip

    assert taken == line(data, seed=7, num_samples=54)


class OnSlowDisk(PackedDataset):
    """Counts its batches, takes `pause` seconds for each, and breaks when told to."""

    num_read, pause, is_broken = 0, 0.0, False

    def batch(self, cursor: Cursor, *, global_batch: int, rank: int = 0, world_size: int = 1) -> npt.NDArray[Any]:
        self.num_read += 1
        time.sleep(self.pause)
        if self.is_broken:
            raise OSError("the disk is gone")
        return super().batch(cursor, global_batch=global_batch, rank=rank, world_size=world_size)


@pytest.fixture
def disk(data: PackedDataset) -> OnSlowDisk:
    return OnSlowDisk(data.path)


def test_no_more_batches_are_read_ahead_than_was_said(disk: OnSlowDisk) -> None:
    with Loader(disk, disk.cursor(seed=1), global_batch=4, read_ahead=3) as loader:
        for _ in range(5):
            next(loader)
        time.sleep(0.1)

        assert disk.num_read == 8


def test_the_time_that_training_waited_is_told_and_nothing_else(disk: OnSlowDisk) -> None:
    disk.pause = 0.3
    with Loader(disk, disk.cursor(seed=1), global_batch=4, read_ahead=2) as loader:
        assert next(loader).wait_seconds > 0.0
        while disk.num_read < 3:
            time.sleep(0.01)
        time.sleep(0.6)  # the training computes; the third batch is read to its end
        assert next(loader).wait_seconds < 0.3
        assert next(loader).wait_seconds < 0.3
    with Loader(disk, disk.cursor(seed=1), global_batch=4, read_ahead=0) as loader:
        assert next(loader).wait_seconds >= 0.3


def test_what_goes_wrong_in_the_thread_reaches_the_training_again_and_again(disk: OnSlowDisk) -> None:
    disk.is_broken = True
    with Loader(disk, disk.cursor(seed=1), global_batch=4) as loader:
        for _ in range(2):
            with pytest.raises(OSError, match="the disk is gone"):
                next(loader)


def test_a_closed_loader_leaves_no_thread_and_keeps_its_state(data: PackedDataset) -> None:
    before = threading.active_count()
    loader = Loader(data, data.cursor(seed=1), global_batch=4)
    next(loader)
    loader.close()
    loader.close()

    assert threading.active_count() == before
    assert loader.state()["position"] == 4
    with pytest.raises(RuntimeError, match="closed"):
        next(loader)


def test_a_global_batch_that_cannot_be_shared_is_refused_at_once(data: PackedDataset) -> None:
    with pytest.raises(ValueError, match="must be a multiple of the world size"):
        Loader(data, data.cursor(seed=1), global_batch=6, world_size=4)


def test_documents_of_a_batch_are_told_apart(tmp_path: Path) -> None:
    rows = [[5, 6, END, 7], [8, END, END, END], [END, 1, 2, END]]
    data = PackedDataset(write(tmp_path / "set", [rows]))
    with Loader(data, data.cursor(seed=1), global_batch=3) as loader:
        batch = next(loader)

    ids = {tuple(row): found for row, found in zip(batch.rows.tolist(), batch.document_ids.tolist(), strict=True)}
    assert ids == {(5, 6, END, 7): [0, 0, 0], (8, END, END, END): [0, 0, -1], (END, 1, 2, END): [0, 1, 1]}
    assert batch.cu_seqlens.dtype == np.int32
    assert batch.cu_seqlens[[0, -1]].tolist() == [0, 9]


def test_the_loader_needs_nothing_but_numpy() -> None:
    program = "import sys, components.dataset.loader; print(*sorted(m for m in sys.modules if m.count('.') == 0))"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()

    assert set(loaded) & {"pydantic", "yaml", "torch", "safetensors", "click", "hera", "boto3", "xxhash"} == set()
