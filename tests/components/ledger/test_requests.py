"""What a checkpoint costs in requests, counted as a store would bill them."""

import threading
import time
from pathlib import Path
from typing import BinaryIO

from components.contracts.layout import checkpoint_folder
from components.ledger.ledger import Ledger, commit
from components.ledger.publish import publish_files, write_manifest
from tests.components.ledger.building import DATA_VERSION, a_begun_run, a_checkpoint, a_ledger, a_stage, selected
from tests.components.ledger.counting import CountingStore
from tests.components.ledger.memory import MemoryStore


def committed(ledger: Ledger, stage: Path, step: int, term: int) -> None:
    folder = checkpoint_folder("gpt", "v1", DATA_VERSION, step=step, term=term)
    receipt = publish_files(ledger.store, folder=folder, source=stage, node_rank=0, term=term, step=step)
    manifest, sha256 = write_manifest(
        ledger.store, receipts=[receipt], experiment="gpt", model_version="v1", data_version=DATA_VERSION,
        run="gpt-aaaaa", term=term, step=step, world_size=1, parent=None, metrics={},
    )  # fmt: skip
    commit(ledger, manifest=manifest, manifest_sha256=sha256)


def test_a_checkpoint_costs_three_small_requests_beyond_its_data(tmp_path: Path) -> None:
    store, stage = CountingStore(MemoryStore()), a_stage(tmp_path / "stage")
    ledger = a_ledger(store)
    term = a_begun_run(ledger)
    committed(ledger, stage, 10, term)
    store.requests.clear()

    committed(ledger, stage, 20, term)

    data = ["model.safetensors", "state.json"]
    names = [(method, key.rpartition("/")[2]) for method, key in store.requests]
    assert sorted(name for name in names if name[1] in data) == [("PUT", name) for name in data]
    assert [name for name in names if name[1] not in data] == [
        ("PUT", "000000.json"), ("PUT", "MANIFEST.json"), ("PUT", "000000000004.json"),
    ]  # fmt: skip


def test_each_record_of_others_costs_one_more_and_the_lost_race_one(tmp_path: Path) -> None:
    store, stage = CountingStore(MemoryStore()), a_stage(tmp_path / "stage")
    ledger = a_ledger(store)
    term = a_begun_run(ledger)
    committed(ledger, stage, 10, term)
    for step in (20, 30):
        a_checkpoint(a_ledger(store), stage, step=step, term=term)
    store.counted()

    committed(ledger, stage, 40, term)

    log = [method for method, key in store.requests if "/log/" in key]
    assert log == ["PUT", "GET", "GET", "GET", "GET", "PUT"]  # lost; who stands there; both; nothing after; won


def test_selecting_costs_one_listing_of_the_log_and_a_look_at_one_checkpoint(tmp_path: Path) -> None:
    store, stage = CountingStore(MemoryStore()), a_stage(tmp_path / "stage")
    ledger = a_ledger(store)
    term = a_begun_run(ledger)
    for step in range(10, 60, 10):
        a_checkpoint(ledger, stage, step=step, term=term, verified="tensors")
    store.counted()

    selected(a_ledger(store), "gpt-bbbbb")

    # No note of a snapshot; 12 records and the one that is not there yet; the newest checkpoint's manifest, two files.
    assert store.counted() == {"LIST": 2, "GET": 1 + 13 + 3}


class SlowStore(CountingStore):
    """Each read takes a while, and several may be under way."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())
        self.lock, self.now, self.most = threading.Lock(), 0, 0

    def open(self, key: str) -> BinaryIO:
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        time.sleep(0.002)
        with self.lock:
            self.now -= 1
        return super().open(key)


def test_records_are_fetched_side_by_side_but_never_too_many_at_once(tmp_path: Path) -> None:
    store, stage = SlowStore(), a_stage(tmp_path / "stage")
    ledger = a_ledger(store)
    term = a_begun_run(ledger)
    for step in range(10, 200, 10):
        a_checkpoint(ledger, stage, step=step, term=term)
    store.most = 0

    state = Ledger(store, "gpt", "v1", num_readers=6).state()

    assert len(state.checkpoints) == 19
    assert 1 < store.most <= 6
