"""The merge takes exactly one receipt a task and each shard once, or names what is wrong."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from components.dataset.reader import PackedDataset
from components.errors import BadInput, VerificationFailed
from components.shard.merge import merge_receipts
from components.shard.task import run_task
from components.storage.local import LocalStore
from tests.components.shard.building import LOG, a_corpus, a_spec, plan, shard, shard_file


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "storage")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return a_corpus(tmp_path / "corpus")


def test_the_manifest_sums_the_receipts_and_opens_in_the_reader(store: LocalStore, corpus: Path) -> None:
    manifest = shard(store, a_spec(corpus))

    data = PackedDataset(store.root / "data" / "versions" / manifest.data_version / "manifest.json")

    assert manifest.counts.as_json() == {
        "input_bytes": 2442, "num_dropped": 0, "num_empty": 1, "num_inputs": 12, "num_split": 11, "num_truncated": 0,
    }  # fmt: skip
    assert manifest.num_tokens == 2442 + 11
    assert sum(shard.num_documents for shard in manifest.shards) == 11
    assert len(data) == manifest.num_sequences
    everything = np.concatenate([data.sequence(index) for index in range(len(data))])
    assert (everything != 256).sum() == 2442


def test_the_data_version_does_not_depend_on_tasks_places_or_times(tmp_path: Path, corpus: Path) -> None:
    first = shard(LocalStore(tmp_path / "first"), a_spec(corpus, num_tasks=1))
    corpus.rename(tmp_path / "moved")
    for path in (tmp_path / "moved").iterdir():
        path.write_bytes(path.read_bytes())
    second = shard(LocalStore(tmp_path / "second"), a_spec(tmp_path / "moved", num_tasks=7))

    assert first.data_version == second.data_version
    assert first.plan_id != second.plan_id


def test_an_existing_data_version_stays_and_lost_shards_of_it_are_restored(store: LocalStore, corpus: Path) -> None:
    first = shard(store, a_spec(corpus))
    lost = shard_file(store, first.plan_id, 1, "bin")
    content = lost.read_bytes()
    lost.unlink()
    for path in corpus.iterdir():
        path.write_bytes(path.read_bytes())

    second = shard(store, a_spec(corpus))

    assert second == first
    assert lost.read_bytes() == content


def test_merging_twice_changes_nothing(store: LocalStore, corpus: Path) -> None:
    first = shard(store, a_spec(corpus))

    assert merge_receipts(store, plan_id=first.plan_id, num_tasks=2, log=LOG) == first


def test_a_large_file_in_many_shards_is_read_back_whole(store: LocalStore, tmp_path: Path) -> None:
    content = bytes(byte * byte % 251 for byte in range(5000))
    (tmp_path / "large").write_bytes(content)

    manifest = shard(store, a_spec(tmp_path / "large", target_shard_bytes=1000))

    data = PackedDataset(store.root / "data" / "versions" / manifest.data_version / "manifest.json")
    everything = np.concatenate([data.sequence(index) for index in range(len(data))])
    assert len(manifest.shards) == 6
    assert bytes(everything[everything != 256].astype(np.uint8)) == content
    assert manifest.counts.num_inputs == manifest.counts.num_split == 1


def edited(key: str, **changes: Any) -> Callable[[LocalStore], None]:
    def edit(store: LocalStore) -> None:
        (name,) = (info.key for info in store.list("data") if info.key.endswith(key))
        document = json.loads(store.read(name))
        store.replace(name, json.dumps(document | changes).encode())

    return edit


def deleted(key: str) -> Callable[[LocalStore], None]:
    def delete(store: LocalStore) -> None:
        (name,) = (info.key for info in store.list("data") if info.key.endswith(key))
        store.delete(name)

    return delete


def foreign_file(store: LocalStore) -> None:
    folder = next(info.key for info in store.list("data") if "receipts" in info.key).rpartition("/")[0]
    store.create(f"{folder}/notes.json", b"{}")


def same_receipt_twice(store: LocalStore) -> None:
    first, second = (info.key for info in store.list("data") if "receipts" in info.key)
    store.replace(second, store.read(first))


def shard_named_twice(store: LocalStore) -> None:
    first, second = (info.key for info in store.list("data") if "receipts" in info.key)
    edited("/" + second.rpartition("/")[2], shards=json.loads(store.read(first))["shards"])(store)


def shard_of_another_entry(store: LocalStore) -> None:
    (name,) = (info.key for info in store.list("data") if info.key.endswith("000002/000000.json"))
    shards = json.loads(store.read(name))["shards"]
    edited("000002/000000.json", shards=[shards[0] | {"entry": "other"}, *shards[1:]])(store)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (deleted("000002/000001.json"), "task 1: left no receipt at file://"),
        (foreign_file, "notes.json: is not a receipt of this plan's tasks"),
        (same_receipt_twice, "000001.json: is the receipt of task 0 of 2"),
        (shard_named_twice, "receipt of task 1: names shard 0, as task 0 does"),
        (edited("000002/000000.json", num_tasks=3), "is the receipt of task 0 of 3"),
        (edited("000002/000000.json", plan_id="p-other"), "plan p-other"),
        (edited("000002/000001.json", shards=[]), "name no shard 1, 3, 5"),
        (edited("000002/000001.json", counts={}), "account for 8 of 12 inputs"),
        (lambda store: shard_file(store, store.plan, 3, "bin").unlink(), ".bin: is missing"),
        (lambda store: shard_file(store, store.plan, 4, "ends").write_bytes(b"short"), ".ends: has 5 bytes instead of"),
        (shard_of_another_entry, "made shard 0 from entry other"),
    ],
)
def test_a_set_that_is_not_exactly_the_plan_is_refused(
    store: LocalStore, corpus: Path, damage: Callable[[LocalStore], None], said: str
) -> None:
    plan_id = plan(store, a_spec(corpus))
    for index in range(2):
        run_task(store, plan_id=plan_id, task_index=str(index), num_tasks=2, log=LOG)
    store.plan = plan_id  # type: ignore[attr-defined]
    damage(store)

    with pytest.raises(BadInput, match="ReceiptsRefused") as caught:
        merge_receipts(store, plan_id=plan_id, num_tasks=2, log=LOG)
    assert said in str(caught.value)
    assert list(store.list("data/versions")) == []


def altered(document: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """With its first shard changed."""
    first, *others = document["shards"]
    return document | {"shards": [first | changes, *others]}


def with_file(document: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """With the first file of its first shard changed."""
    first, *others = document["shards"][0]["files"]
    return altered(document, files=[first | changes, *others])


@pytest.mark.parametrize("by_another_plan", [False, True])
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda it: it | {"shards": it["shards"][:3]}, "they differ in shards"),
        (lambda it: it | {"shards": it["shards"] + it["shards"][:1]}, "they differ in shards"),
        (lambda it: altered(it, num_sequences=10**6), "they differ in shards"),
        (lambda it: altered(it, num_tokens=1), "they differ in shards"),
        (lambda it: altered(it, files=it["shards"][0]["files"][:1]), "they differ in shards"),
        (lambda it: with_file(it, sha256="ab" * 32), "they differ in shards"),
        (lambda it: with_file(it, size_bytes=1), "they differ in shards"),
        (lambda it: with_file(it, path="../../../a.bin"), "path ../../../a.bin"),
        (lambda it: it | {"data_version": "d-0000000000000000"}, "they differ in data_version"),
        (lambda it: it | {"options": it["options"] | {"sequence_length": 8}}, "they differ in options"),
    ],
)
def test_a_stored_manifest_that_the_receipts_do_not_add_up_to_is_refused_and_made_again_once_deleted(
    store: LocalStore,
    corpus: Path,
    change: Callable[[dict[str, Any]], dict[str, Any]],
    said: str,
    by_another_plan: bool,
) -> None:
    first = shard(store, a_spec(corpus))
    key = f"data/versions/{first.data_version}/manifest.json"
    damaged = json.dumps(change(first.as_json())).encode()
    store.replace(key, damaged)
    plan_id = first.plan_id
    if by_another_plan:
        for path in corpus.iterdir():
            path.write_bytes(path.read_bytes())
        plan_id = plan(store, a_spec(corpus))
        for index in range(2):
            run_task(store, plan_id=plan_id, task_index=str(index), num_tasks=2, log=LOG)

    with pytest.raises(VerificationFailed, match="ManifestDiffers") as caught:
        merge_receipts(store, plan_id=plan_id, num_tasks=2, log=LOG)
    assert said in str(caught.value)
    assert hashlib.sha256(damaged).hexdigest() in str(caught.value)
    assert "delete that manifest and the files beside it" in str(caught.value)
    assert store.read(key) == damaged

    for info in list(store.list(key.rpartition("/")[0])):
        store.delete(info.key)
    assert merge_receipts(store, plan_id=plan_id, num_tasks=2, log=LOG).data_version == first.data_version


def test_the_same_plan_merged_for_another_number_of_tasks_finds_its_manifest(store: LocalStore, corpus: Path) -> None:
    first = shard(store, a_spec(corpus, num_tasks=2, max_bad_records=1))

    for index in range(3):
        run_task(store, plan_id=first.plan_id, task_index=str(index), num_tasks=3, log=LOG)
    assert merge_receipts(store, plan_id=first.plan_id, num_tasks=3, log=LOG) == first


def test_bad_records_of_all_tasks_together_keep_to_the_budget(store: LocalStore, corpus: Path) -> None:
    plan_id = plan(store, a_spec(corpus, max_bad_records=1))
    for name in ("03", "10"):
        (corpus / name).unlink()
        (corpus / name).mkdir()
    for index in range(2):
        run_task(store, plan_id=plan_id, task_index=str(index), num_tasks=2, log=LOG)

    with pytest.raises(BadInput, match="TooManyBadRecords"):
        merge_receipts(store, plan_id=plan_id, num_tasks=2, log=LOG)
