"""Publishing: what the program wrote, byte for byte, once; what cannot be published is named, all of it."""

import hashlib
import os
import threading
from pathlib import Path

import pytest

from components.errors import BadInput
from components.ledger.publish import PublishRefused, publish_files, receipts_present, write_manifest
from components.storage.local import LocalStore
from tests.components.ledger.building import a_stage
from tests.components.ledger.memory import MemoryStore

FOLDER = "checkpoints/gpt/v1/d-1/step-000000000010/term-000003"


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "storage")


def publish(store: LocalStore, source: Path, *, node_rank: int = 0) -> list[tuple[str, int, str]]:
    receipt = publish_files(store, folder=FOLDER, source=source, node_rank=node_rank, term=3, step=10)
    return [(file.path, file.size_bytes, file.sha256) for file in receipt.files]


def finish(store: LocalStore, **changes: object) -> tuple[str, ...]:
    arguments = {
        "receipts": receipts_present(store, folder=FOLDER, node_ranks=range(2)), "experiment": "gpt",
        "model_version": "v1", "data_version": "d-1", "run": "gpt-aaaaa", "term": 3, "step": 10, "world_size": 2,
        "parent": None, "metrics": {"loss": 2.0},
    }  # fmt: skip
    manifest, sha256 = write_manifest(store, **{**arguments, **changes})  # type: ignore[arg-type]
    assert hashlib.sha256(store.read(f"{FOLDER}/MANIFEST.json")).hexdigest() == sha256
    return tuple(file.path for file in manifest.files)


def test_every_file_is_copied_with_its_digest_and_ready_marks_are_not(store: LocalStore, tmp_path: Path) -> None:
    source = a_stage(tmp_path / "stage", {"b.bin": b"bytes", "sub/.metadata": b"", "READY.3": b"", "READY.md": b""})

    assert publish(store, source) == [
        ("READY.md", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        ("b.bin", 5, "277089d91c0bdf4f2e6862ba7e4a07605119431f5d13f726dd352b06f1b206a9"),
        ("sub/.metadata", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
    ]
    assert store.read(f"{FOLDER}/b.bin") == b"bytes"
    assert finish(store) == ("READY.md", "b.bin", "sub/.metadata")


def test_publishing_twice_is_the_same_as_once(store: LocalStore, tmp_path: Path) -> None:
    source = a_stage(tmp_path / "stage")

    assert publish(store, source) == publish(store, source)
    assert finish(store) == finish(store)


def test_a_copy_cut_short_by_a_crash_is_completed(store: LocalStore, tmp_path: Path) -> None:
    source = a_stage(tmp_path / "stage")
    store.create_from(f"{FOLDER}/model.safetensors", source / "model.safetensors")

    publish(store, source)

    assert finish(store) == ("model.safetensors", "state.json")


def test_other_bytes_under_a_published_name_are_refused_and_nothing_is_overwritten(
    store: LocalStore, tmp_path: Path
) -> None:
    publish(store, a_stage(tmp_path / "node-0", {"state.json": b"{}"}))

    with pytest.raises(PublishRefused, match=r"state\.json was published already with other content"):
        publish(store, a_stage(tmp_path / "node-1", {"state.json": b"[]"}), node_rank=1)
    assert store.read(f"{FOLDER}/state.json") == b"{}"


def test_two_nodes_may_write_the_same_file_if_it_is_the_same(store: LocalStore, tmp_path: Path) -> None:
    for node_rank in (0, 1):
        own = {"state.json": b"{}", f"rank-{node_rank}.bin": b"x"}
        publish(store, a_stage(tmp_path / str(node_rank), own), node_rank=node_rank)

    assert finish(store) == ("rank-0.bin", "rank-1.bin", "state.json")


def test_unusable_names_are_refused_all_at_once(store: LocalStore, tmp_path: Path) -> None:
    names = {"MANIFEST.json": b"", "receipts/0.json": b"", ".tmp-x": b"", "a\nb": b"", "back\\slash": b"", "ok": b""}
    source = a_stage(tmp_path / "stage", names)
    (source / "link").symlink_to(source / "ok")
    (source / "loop").symlink_to(source)
    os.mkfifo(source / "pipe")
    Path(os.fsdecode(os.fsencode(source) + b"/\xff")).write_bytes(b"")

    with pytest.raises(PublishRefused) as caught:
        publish(store, source)

    faults = {problem.where.removeprefix(f"{source}/"): problem.seen for problem in caught.value.problems}
    assert faults == {
        "MANIFEST.json": "uses the name MANIFEST.json, which the platform uses itself",
        "receipts/0.json": "uses the name receipts, which the platform uses itself",
        ".tmp-x": "uses the prefix .tmp-, which marks unfinished files",
        "a\nb": "contains characters that cannot be printed",
        "back\\slash": "is not a relative path",
        "\\udcff": "contains characters that cannot be printed",
        "link": "is not a regular file",
        "loop": "is not a regular file",
        "pipe": "is not a regular file",
    }
    assert list(store.list(FOLDER)) == []


def test_a_step_without_files_is_not_a_checkpoint(store: LocalStore, tmp_path: Path) -> None:
    publish(store, a_stage(tmp_path / "stage", {"READY.0": b"", "READY": b""}))

    with pytest.raises(PublishRefused, match="step 10 has no files; write files before the READY mark"):
        finish(store)


def test_a_metric_that_is_not_finite_is_left_out(store: LocalStore, tmp_path: Path) -> None:
    publish(store, a_stage(tmp_path / "stage"))
    receipts = receipts_present(store, folder=FOLDER, node_ranks=[0])

    manifest, _ = write_manifest(
        store, receipts=receipts, experiment="gpt", model_version="v1", data_version="d-1", run="gpt-aaaaa", term=3,
        step=10, world_size=1, parent=None, metrics={"loss": float("nan"), "lr": 0.5, "norm": float("inf")},
    )  # fmt: skip

    assert manifest.metrics == {"lr": 0.5}


def test_a_receipt_that_is_missing_is_not_present(store: LocalStore, tmp_path: Path) -> None:
    publish(store, a_stage(tmp_path / "stage"), node_rank=1)

    receipts = receipts_present(store, folder=FOLDER, node_ranks=range(3))

    assert [receipt.node_rank for receipt in receipts] == [1]


def test_a_torn_receipt_is_named(store: LocalStore) -> None:
    store.create(f"{FOLDER}/receipts/000000.json", b'{"kind": "checkpoint-rec')

    with pytest.raises(Exception, match=r"DamagedDocument: .*receipts/000000\.json is not a readable") as caught:
        receipts_present(store, folder=FOLDER, node_ranks=[0])
    assert not isinstance(caught.value, BadInput)


def test_files_go_to_a_bucket_four_at_a_time(tmp_path: Path) -> None:
    class Meeting(MemoryStore):
        """Nobody gets through before four have come."""

        barrier, lock, now, most = threading.Barrier(4), threading.Lock(), 0, 0

        def create_from(self, key: str, source: Path) -> str:
            with self.lock:
                self.now += 1
                self.most = max(self.most, self.now)
            self.barrier.wait(60)
            with self.lock:
                self.now -= 1
            return super().create_from(key, source)

    store = Meeting()
    stage = a_stage(tmp_path / "many", {f"rank-{number}.pt": bytes(number) for number in range(8)})

    receipt = publish_files(store, folder="checkpoints/x", source=stage, node_rank=0, term=1, step=10)

    assert [file.path for file in receipt.files] == [f"rank-{number}.pt" for number in range(8)]
    assert store.most == 4


def test_the_first_refusal_of_several_uploads_is_told(tmp_path: Path) -> None:
    store = MemoryStore({"checkpoints/x/rank-2.pt": b"of somebody else"})
    stage = a_stage(tmp_path / "many", {f"rank-{number}.pt": b"ours" for number in range(8)})

    with pytest.raises(PublishRefused, match=r"rank-2\.pt was published already with other content"):
        publish_files(store, folder="checkpoints/x", source=stage, node_rank=0, term=1, step=10)
    assert not any("receipts" in key for key in store.objects)
