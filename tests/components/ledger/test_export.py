"""Exports: proven while they are copied, complete or absent, never over something that is there."""

import json
from pathlib import Path

import pytest

from components.errors import BadInput, VerificationFailed
from components.integrity.examine_place import examine_place
from components.integrity.place import find_place
from components.ledger.export import ExportFormat, export_checkpoint
from components.ledger.state import CheckpointEntry
from components.storage.local import LocalStore
from tests.components.ledger.building import a_begun_run, a_checkpoint, a_ledger, a_stage, safetensors_bytes

FILES = {
    "model-1.safetensors": safetensors_bytes({"a": [1.0]}), "model-2.safetensors": safetensors_bytes({"b": [2.0, 3.0]}),
    "optimizer/rank-0.safetensors": safetensors_bytes({"a": [4.0]}), "state.json": b"{}",
}  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "storage")


@pytest.fixture
def entry(store: LocalStore, tmp_path: Path) -> CheckpointEntry:
    ledger = a_ledger(store)
    term = a_begun_run(ledger)
    a_checkpoint(ledger, a_stage(tmp_path / "stage", FILES), step=10, term=term, verified="tensors")
    return ledger.state().checkpoints["step-10-term-1"]


def exported(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_plain_export_holds_the_files_and_can_be_verified_where_it_lies(
    store: LocalStore, entry: CheckpointEntry, tmp_path: Path
) -> None:
    out = tmp_path / "people" / "out"

    export_checkpoint(store, entry, out, form="plain")

    files = exported(out)
    assert files.pop("MANIFEST.json") == store.read(f"{entry.folder}/MANIFEST.json")
    assert files == FILES
    assert examine_place(find_place(str(out)), "tensors").faults == ()


def test_a_safetensors_export_has_an_index_over_its_files(
    store: LocalStore, entry: CheckpointEntry, tmp_path: Path
) -> None:
    out = tmp_path / "out"

    export_checkpoint(store, entry, out, form="safetensors", only=["model*"])

    files = exported(out)
    index = json.loads(files.pop("model.safetensors.index.json"))
    assert files == {name: FILES[name] for name in ("model-1.safetensors", "model-2.safetensors")}
    assert index["weight_map"] == {"a": "model-1.safetensors", "b": "model-2.safetensors"}
    assert examine_place(find_place(str(out)), "tensors").faults == ()


def damage(store: LocalStore, entry: CheckpointEntry) -> None:
    key = f"{entry.folder}/model-2.safetensors"
    store.replace(key, store.read(key)[:-1] + b"\xff")


def lose(store: LocalStore, entry: CheckpointEntry) -> None:
    store.delete(f"{entry.folder}/state.json")


def lose_the_manifest(store: LocalStore, entry: CheckpointEntry) -> None:
    store.delete(f"{entry.folder}/MANIFEST.json")


@pytest.mark.parametrize("harm", [damage, lose, lose_the_manifest])
def test_of_a_damaged_checkpoint_nothing_is_left(
    store: LocalStore, entry: CheckpointEntry, tmp_path: Path, harm: object
) -> None:
    harm(store, entry)  # type: ignore[operator]
    people = tmp_path / "people"
    people.mkdir()

    with pytest.raises(VerificationFailed):
        export_checkpoint(store, entry, people / "out", form="plain")
    assert list(people.iterdir()) == []


@pytest.mark.parametrize(
    ("form", "only", "reason"),
    [
        ("plain", ["*.pt"], "NothingMatches"),
        ("safetensors", [], "TensorTwice"),
        ("safetensors", ["*.json"], "NothingM"),
    ],
)
def test_what_cannot_be_exported_is_said(
    store: LocalStore, entry: CheckpointEntry, tmp_path: Path, form: ExportFormat, only: list[str], reason: str
) -> None:
    with pytest.raises(BadInput, match=reason):
        export_checkpoint(store, entry, tmp_path / "out", form=form, only=only)
    assert not (tmp_path / "out").exists()


def test_a_checkpoint_without_safetensors_is_not_converted(store: LocalStore, tmp_path: Path) -> None:
    ledger = a_ledger(store)
    term = a_begun_run(ledger)
    a_checkpoint(ledger, a_stage(tmp_path / "stage", {"model.pt": b"x", "state.json": b"{}"}), step=10, term=term)

    with pytest.raises(BadInput, match=r"NoSafetensors: step-10-term-1 has no .safetensors files, only .json, .pt"):
        export_checkpoint(
            store, ledger.state().checkpoints["step-10-term-1"], tmp_path / "out", form="safetensors"
        )  # fmt: skip


def test_a_folder_that_exists_is_never_touched(store: LocalStore, entry: CheckpointEntry, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()

    with pytest.raises(BadInput, match="FolderExists"):
        export_checkpoint(store, entry, out, form="plain")
    assert list(out.iterdir()) == []
