"""What a training program sees of a packed data set, on any number of ranks, before and after a resume."""

import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.dataset.reader import Cursor, DatasetDamaged, PackedDataset, inputs_and_targets
from tests.components.dataset.packed import numbered, write


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """23 sequences over four shards, one of them empty; sequence i holds four times i."""
    folder = tmp_path_factory.mktemp("data") / "set"
    return write(folder, [numbered(0, 10), [], numbered(10, 1), numbered(11, 12)])


@pytest.fixture(scope="module")
def data(manifest: Path) -> PackedDataset:
    return PackedDataset(manifest)


def test_sequences_are_found_across_shards(data: PackedDataset) -> None:
    assert len(data) == 23
    assert [int(data.sequence(index)[0]) for index in range(23)] == list(range(23))
    with pytest.raises(IndexError, match="sequence 23 of 23"):
        data.sequence(23)
    with pytest.raises(IndexError):
        data.sequence(-1)


def test_an_epoch_shows_every_sequence_once_in_another_order_each_time(data: PackedDataset) -> None:
    first, second = data.order(seed=3, epoch=0).tolist(), data.order(seed=3, epoch=1).tolist()

    assert sorted(first) == sorted(second) == list(range(23))
    assert first != second
    assert first == data.order(seed=3, epoch=0).tolist()


@given(position=st.integers(0, 200), world_size=st.sampled_from([1, 2, 3, 4, 6, 12]))
@settings(max_examples=40)
def test_a_global_batch_holds_the_same_samples_on_any_number_of_ranks(
    data: PackedDataset, position: int, world_size: int
) -> None:
    cursor = Cursor("d-1", seed=9, position=position)
    alone = data.indices(cursor, global_batch=12).tolist()

    shared = [
        index
        for rank in range(world_size)
        for index in data.indices(cursor, global_batch=12, rank=rank, world_size=world_size).tolist()
    ]

    assert shared == alone


def test_a_batch_reaches_into_the_next_epoch_without_skipping(data: PackedDataset) -> None:
    cursor = data.cursor(seed=1).advance(20)

    expected = data.order(seed=1, epoch=0).tolist()[20:] + data.order(seed=1, epoch=1).tolist()[:5]

    assert data.indices(cursor, global_batch=8).tolist() == expected


def test_a_resumed_run_sees_what_an_untouched_one_sees(data: PackedDataset) -> None:
    cursor, untouched = data.cursor(seed=1234), []
    for _ in range(10):
        untouched.append(data.batch(cursor, global_batch=4).tolist())
        cursor = cursor.advance(4)

    saved = json.loads(json.dumps(data.cursor(seed=1234).advance(5 * 4).state()))
    resumed = data.cursor(seed=1234, state=saved)
    after = [data.batch(resumed.advance(4 * step), global_batch=4).tolist() for step in range(5)]

    assert after == untouched[5:]


def test_a_cursor_of_other_data_or_another_seed_is_refused(data: PackedDataset) -> None:
    state = data.cursor(seed=1).state()

    with pytest.raises(ValueError, match="belongs to d-1 with seed 1, not to d-1 with seed 2"):
        data.cursor(seed=2, state=state)
    with pytest.raises(ValueError, match="position is -1, not a count of samples"):
        data.cursor(seed=1, state={**state, "position": -1})
    with pytest.raises(ValueError, match="belongs to d-other"):
        data.cursor(seed=1, state={**state, "data_version": "d-other"})


@pytest.mark.parametrize(("batch", "rank", "world_size"), [(10, 0, 4), (8, 4, 4), (8, -1, 4)])
def test_a_batch_that_cannot_be_shared_evenly_is_refused(
    data: PackedDataset, batch: int, rank: int, world_size: int
) -> None:
    with pytest.raises(ValueError, match="must be a multiple of the world size"):
        data.indices(data.cursor(seed=1), global_batch=batch, rank=rank, world_size=world_size)


def test_targets_are_shifted_by_one_and_padding_is_ignored() -> None:
    rows = np.array([[7, 8, 256, 9], [7, 256, 256, 256]], dtype=np.uint16)

    inputs, targets = inputs_and_targets(rows, end_of_document=256)

    assert inputs.tolist() == [[7, 8, 256], [7, 256, 256]]
    assert targets.tolist() == [[8, 256, 9], [256, -100, -100]]
    assert inputs.dtype == targets.dtype == np.dtype(np.int64)


def test_a_pickled_data_set_carries_its_path_and_not_its_content(data: PackedDataset) -> None:
    again = pickle.loads(pickle.dumps(data))

    assert len(pickle.dumps(data)) < 1000
    assert again.sequence(12).tolist() == [12, 12, 12, 12]


def cut_a_shard(folder: Path) -> None:
    path = folder / "plans" / "0.bin"
    path.write_bytes(path.read_bytes()[:-1])


def remove_a_shard(folder: Path) -> None:
    (folder / "plans" / "1.bin").unlink()


def claim_another_count(folder: Path) -> None:
    edit(folder, lambda manifest: manifest["shards"][1].update(num_sequences=7))


def of_another_version(folder: Path) -> None:
    edit(folder, lambda manifest: manifest.update(version=2))


def cut_the_manifest(folder: Path) -> None:
    path = folder / "versions" / "manifest.json"
    path.write_text(path.read_text()[:40])


def edit(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = folder / "versions" / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (cut_a_shard, r"0\.bin: 23 bytes, not 24"),
        (remove_a_shard, r"1\.bin: missing, not 8"),
        (claim_another_count, r"1\.bin: not 7 sequences long"),
        (of_another_version, r"is not a shard manifest of version 1"),
        (cut_the_manifest, r"cannot be read as a shard manifest"),
    ],
)
def test_damage_is_named_when_the_data_set_is_opened(tmp_path: Path, damage: Callable[[Path], None], said: str) -> None:
    path = write(tmp_path / "set", [numbered(0, 3), numbered(3, 1)])
    damage(tmp_path / "set")

    with pytest.raises(DatasetDamaged, match=said):
        PackedDataset(path)


def test_a_data_set_without_sequences_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetDamaged, match="holds no sequence"):
        PackedDataset(write(tmp_path / "set", [[]]))


def test_the_reader_needs_nothing_but_numpy() -> None:
    program = "import sys, components.dataset.reader; print(*sorted(m for m in sys.modules if m.count('.') == 0))"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()

    third_party = set(loaded) & {"pydantic", "yaml", "torch", "safetensors", "click", "hera", "boto3", "xxhash"}
    assert third_party == set()
