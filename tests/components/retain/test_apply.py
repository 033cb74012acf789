"""Carrying the plan out: only what is retired or fenced goes, the survivors are looked at, twice is once."""

import io
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from components.contracts.layout import checkpoint_folder
from components.contracts.retention import RetentionPlan, RetentionPolicy
from components.errors import Transient
from components.ledger.ledger import Ledger
from components.ledger.publish import publish_files
from components.retain.apply import apply_retention
from components.retain.objects import doomed_objects, needs_sweep
from components.runtime.log import Log
from components.storage.base import ObjectInfo, StorageError
from components.storage.local import LocalStore
from components.storage.unfinished import unfinished_name
from tests.components.ledger.building import DATA_VERSION, NOW, a_begun_run, a_checkpoint, a_ledger, a_stage
from tests.components.ledger.counting import CountingStore


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return a_ledger(LocalStore(tmp_path / "storage"))


@pytest.fixture
def stage(tmp_path: Path) -> Path:
    return a_stage(tmp_path / "stage")


def applied(ledger: Ledger, *, keep_last: int = 2, sweeps: bool = True) -> RetentionPlan:
    return apply_retention(
        ledger, RetentionPolicy(keep_last=keep_last), run="gpt-aaaaa", log=Log({}, io.StringIO()), now=NOW,
        sweeps=sweeps,
    )  # fmt: skip


def folders(ledger: Ledger) -> list[str]:
    """`<step>/<term>` of every checkpoint folder that still has objects, in order."""
    keys = [item.key for item in ledger.store.list(f"checkpoints/gpt/v1/{DATA_VERSION}")]
    return sorted({f"{int(key.split('/')[4][5:])}/{int(key.split('/')[5][5:])}" for key in keys})


def statuses(ledger: Ledger) -> dict[str, str]:
    return {entry.checkpoint: entry.status for entry in a_ledger(ledger.store).state().checkpoints.values()}


def verified_steps(ledger: Ledger, stage: Path, *steps: int) -> int:
    term = a_begun_run(ledger)
    for step in steps:
        a_checkpoint(ledger, stage, step=step, term=term, verified="tensors")
    return term


def test_what_is_retired_is_deleted_with_everything_in_it(ledger: Ledger, stage: Path) -> None:
    verified_steps(ledger, stage, 10, 20, 30)

    plan = applied(ledger)

    assert (plan.kept, plan.deleted) == (("step-30-term-1", "step-20-term-1"), ("step-10-term-1",))
    assert folders(ledger) == ["20/1", "30/1"]
    assert ledger.state().checkpoints["step-10-term-1"].is_deleted


def test_applying_an_applied_plan_writes_nothing(ledger: Ledger, stage: Path) -> None:
    verified_steps(ledger, stage, 10, 20, 30)
    first = applied(ledger)
    before = ledger.state()

    assert applied(ledger) == first
    assert ledger.state() is before


def test_an_interrupted_deletion_is_finished(ledger: Ledger, stage: Path) -> None:
    verified_steps(ledger, stage, 10, 20, 30)
    applied(ledger)
    left_over = "checkpoints/gpt/v1/d-0123456789abcdef/step-000000000010/term-000001/model.safetensors"
    ledger.store.create(left_over, b"x")

    applied(ledger)

    assert folders(ledger) == ["20/1", "30/1"]


def test_a_survivor_that_is_not_whole_is_not_counted_on(ledger: Ledger, stage: Path) -> None:
    verified_steps(ledger, stage, 10, 20, 30)
    ledger.store.delete(f"{ledger.state().checkpoints['step-30-term-1'].folder}/state.json")

    plan = applied(ledger)

    assert statuses(ledger) == {
        "step-10-term-1": "verified", "step-20-term-1": "verified", "step-30-term-1": "quarantined",
    }  # fmt: skip
    assert plan.deleted == ()
    reason = ledger.state().checkpoints["step-30-term-1"].reason
    assert reason == "state.json: is missing (expected 11 bytes)"


def test_good_ones_stay_when_newer_ones_rotted_without_a_change_of_size(ledger: Ledger, stage: Path) -> None:
    verified_steps(ledger, stage, 10, 20, 30, 40)
    for entry in ledger.state().newest_first("verified")[:2]:
        rotten = bytearray(ledger.store.read(f"{entry.folder}/model.safetensors"))
        rotten[-1] ^= 1
        ledger.store.replace(f"{entry.folder}/model.safetensors", bytes(rotten))

    applied(ledger)

    assert statuses(ledger) == {
        "step-10-term-1": "verified", "step-20-term-1": "verified", "step-30-term-1": "retired",
        "step-40-term-1": "quarantined",
    }  # fmt: skip
    assert "SHA-256 differs" in ledger.state().checkpoints["step-40-term-1"].reason


def test_nothing_goes_while_a_survivor_may_not_be_read(
    tmp_path: Path, stage: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = a_ledger(LocalStore(tmp_path / "storage"))
    verified_steps(ledger, stage, 10, 20, 30)
    forbidden = ledger.state().checkpoints["step-20-term-1"].folder + "/model.safetensors"
    may = os.access  # tests run as root, whom no permission stops
    monkeypatch.setattr(os, "access", lambda path, mode: not str(path).endswith(forbidden) and may(path, mode))

    with pytest.raises(StorageError, match=r"cannot read .*20/term-000001/model.safetensors.* is counted on; nothing"):
        applied(ledger)

    assert set(statuses(ledger).values()) == {"verified"}
    assert folders(ledger) == ["10/1", "20/1", "30/1"]


def test_attempts_that_can_never_commit_any_more_are_collected(ledger: Ledger, stage: Path) -> None:
    fenced = a_begun_run(ledger)
    torn = checkpoint_folder("gpt", "v1", DATA_VERSION, step=10, term=fenced)
    publish_files(ledger.store, folder=torn, source=stage, node_rank=0, term=fenced, step=10)
    term = verified_steps(ledger, stage, 10)
    running = checkpoint_folder("gpt", "v1", DATA_VERSION, step=20, term=term)
    publish_files(ledger.store, folder=running, source=stage, node_rank=0, term=term, step=20)

    applied(ledger)

    assert folders(ledger) == ["10/2", "20/2"]


def test_orphans_are_looked_for_after_the_first_commit_of_a_term_and_after_training(
    ledger: Ledger, stage: Path
) -> None:
    assert needs_sweep(ledger.state())
    term = verified_steps(ledger, stage, 10)
    assert needs_sweep(ledger.state())
    a_checkpoint(ledger, stage, step=20, term=term)
    assert not needs_sweep(ledger.state())
    a_begun_run(ledger, source="step-20-term-1")
    assert needs_sweep(ledger.state())


def test_beside_running_ranks_only_what_was_retired_is_listed(ledger: Ledger, stage: Path) -> None:
    fenced = a_begun_run(ledger)
    torn = checkpoint_folder("gpt", "v1", DATA_VERSION, step=10, term=fenced)
    publish_files(ledger.store, folder=torn, source=stage, node_rank=0, term=fenced, step=10)
    verified_steps(ledger, stage, 10, 20, 30)
    counting = CountingStore(ledger.store)

    plan = applied(a_ledger(counting), sweeps=False)

    assert plan.deleted == ("step-10-term-2",)
    assert folders(ledger) == ["10/1", "20/2", "30/2"]
    listed = [key.removeprefix("checkpoints/gpt/v1/") for method, key in counting.requests if method == "LIST"]
    retired, survivors = "10/term-000002", ["30/term-000002", "20/term-000002"]
    # The log; the names of what is counted on; the retired one, before and after.
    assert [key.rpartition("0000000000")[2] for key in listed] == ["log", *survivors, retired, retired]

    applied(ledger)
    assert folders(ledger) == ["20/2", "30/2"]


@pytest.mark.parametrize("data_version", ["d-0123456789abcdef", "unknown"])
def test_a_sweep_does_not_list_the_log(ledger: Ledger, stage: Path, data_version: str) -> None:
    term = a_begun_run(ledger)
    for step in (10, 20, 30):
        a_checkpoint(ledger, stage, step=step, term=term, data_version=data_version, verified="tensors")
    shown: list[str] = []

    class ListedStore(CountingStore):
        def list(self, prefix: str, *, after: str = "") -> Iterator[ObjectInfo]:
            for item in super().list(prefix, after=after):
                shown.append(item.key)
                yield item

    doomed = doomed_objects(a_ledger(ListedStore(ledger.store)))

    assert doomed.keys == ()
    log = [key for key in shown if "/log/" in key]
    assert len(log) == 8 + 1  # the fold's own listing, and the first record, which says where the log begins
    assert len([key for key in shown if f"/{data_version}/" in key]) == 3 * 4


def test_what_a_killed_writer_left_unfinished_goes_with_the_orphans(tmp_path: Path, stage: Path) -> None:
    ledger = a_ledger(LocalStore(tmp_path / "storage"))
    verified_steps(ledger, stage, 10)
    folder = tmp_path / "storage" / ledger.state().checkpoints["step-10-term-1"].folder
    living = unfinished_name()
    parts = living.split("-")
    dead = "-".join([*parts[:4], parts[4], "1", parts[6]])  # another process that had our pid
    for name in (living, dead, ".tmp-of-another-program"):
        (folder / name).write_bytes(b"half")
    assert applied(ledger, sweeps=False)
    assert (folder / dead).exists()

    applied(ledger)

    assert sorted(path.name for path in folder.glob(".tmp-*")) == sorted([living, ".tmp-of-another-program"])


def test_other_experiments_and_foreign_files_are_left_alone(ledger: Ledger, stage: Path) -> None:
    verified_steps(ledger, stage, 10, 20, 30)
    foreign = [
        "checkpoints/gpt/v1/README", "checkpoints/gpt/v1/notes/step-1/term-000001/x",
        "checkpoints/gpt/v2/d-1/step-000000000010/term-000001/x",
        "checkpoints/other/v1/d-1/step-000000000010/term-000001/x",
    ]  # fmt: skip
    for key in foreign:
        ledger.store.create(key, b"x")

    applied(ledger)

    assert [key for key in foreign if ledger.store.find(key) is None] == []


class FullDisk(CountingStore):
    """Takes nothing any more; what is there can be read and deleted."""

    def create(self, key: str, data: bytes | bytearray) -> None:
        raise StorageError("StorageRefused", f"cannot write {key}: No space left on device")


def test_a_full_disk_loses_what_was_retired_earlier_and_nothing_else(ledger: Ledger, stage: Path) -> None:
    verified_steps(ledger, stage, 10, 20, 30)
    applied(ledger)
    left_over = "checkpoints/gpt/v1/d-0123456789abcdef/step-000000000010/term-000001/model.safetensors"
    ledger.store.create(left_over, b"x")
    a_checkpoint(ledger, stage, step=40, term=1, verified="tensors")
    full = a_ledger(FullDisk(ledger.store))

    with pytest.raises(StorageError, match="No space left"):
        applied(full)

    assert folders(ledger) == ["20/1", "30/1", "40/1"]
    assert statuses(ledger)["step-20-term-1"] == "verified"


def test_only_what_is_counted_on_is_read_before_others_go(ledger: Ledger, stage: Path) -> None:
    verified_steps(ledger, stage, *range(10, 130, 10))
    store = CountingStore(ledger.store)
    policy = RetentionPolicy(keep_last=2, keep_every_steps=20)

    apply_retention(a_ledger(store), policy, run="gpt-aaaaa", log=Log({}, io.StringIO()), now=NOW)

    read = [key for method, key in store.requests if method == "GET" and key.endswith("MANIFEST.json")]
    assert [key.split("/")[4] for key in read] == ["step-000000000120", "step-000000000110"]


class Busy(CountingStore):
    """Does not answer every second deletion at first."""

    def delete(self, key: str) -> None:
        if sum(method == "DELETE" for method, _ in self.requests) % 2 == 0:
            self.requests.append(("DELETE", key))
            raise Transient("StorageNotAnswering", "SlowDown")
        super().delete(key)


def test_a_busy_store_is_given_time(ledger: Ledger, stage: Path) -> None:
    verified_steps(ledger, stage, 10, 20, 30)
    pauses: list[float] = []

    apply_retention(
        a_ledger(Busy(ledger.store)), RetentionPolicy(keep_last=2), run="gpt-aaaaa", log=Log({}, io.StringIO()),
        now=NOW, pause=pauses.append,
    )  # fmt: skip

    assert folders(ledger) == ["20/1", "30/1"]
    assert pauses == [0.5, 0.5, 0.5, 0.5]


def test_the_manifest_goes_first(ledger: Ledger, stage: Path) -> None:
    verified_steps(ledger, stage, 10, 20, 30)
    store = CountingStore(ledger.store)

    apply_retention(a_ledger(store), RetentionPolicy(keep_last=2), run="r", log=Log({}, io.StringIO()), now=NOW)

    gone = [key.rpartition("/")[2] for method, key in store.requests if method == "DELETE"]
    assert gone == ["MANIFEST.json", "model.safetensors", "000000.json", "state.json"]


def test_deletion_is_logged_with_its_reason(ledger: Ledger, stage: Path) -> None:
    verified_steps(ledger, stage, 10, 20, 30)
    stream = io.StringIO()

    apply_retention(ledger, RetentionPolicy(keep_last=2), run="gpt-aaaaa", log=Log({}, stream), now=NOW)

    assert '"delete step-10-term-1: verified, but older than the newest 2 verified' in stream.getvalue()
