"""Adopting: somebody else's checkpoint becomes one of ours, verified; the original is never touched."""

import hashlib
import os
import shutil
from pathlib import Path

import pytest

from components.adopt.adopt import UNKNOWN_DATA, adopt
from components.errors import BadInput, VerificationFailed
from components.ledger.ledger import Ledger, RunActive, claim, release
from components.ledger.owner import this_process
from components.ledger.select import select_source
from components.storage.local import LocalStore
from components.storage.s3 import S3Store
from tests.components.integrity.looking import SOUND
from tests.components.ledger.building import (
    DATA_VERSION,
    LATEST,
    a_begun_run,
    a_checkpoint,
    a_ledger,
    a_stage,
)
from tests.fakes.s3_server import S3Server


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "storage")


def content(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*")) if path.is_file()
    }  # fmt: skip


@pytest.mark.parametrize(
    ("where", "layout", "num_files", "num_tensors"),
    [
        ("torch/model.pt", "torch", 1, 8), ("lightning/epoch=0-step=300.ckpt", "Lightning", 1, 5),
        ("hf-trainer/checkpoint-300", "HF Trainer", 7, 5), ("torchtitan/step-300", "torchtitan", 3, 3),
        ("megatron/iter_0000300", "Megatron", 6, 4),
    ],
)  # fmt: skip
def test_every_layout_becomes_a_verified_checkpoint(
    store: LocalStore, where: str, layout: str, num_files: int, num_tensors: int
) -> None:
    told: list[str] = []

    adopted = adopt(store, str(SOUND / where), experiment="gpt", model_version="v1", on_progress=told.append)

    entry = Ledger(store, "gpt", "v1").state().checkpoints["step-300-term-1"]
    assert (adopted.checkpoint, adopted.step, adopted.layout) == ("step-300-term-1", 300, layout)
    assert (adopted.num_files, adopted.num_tensors, len(told)) == (num_files, num_tensors, 3)
    assert (entry.status, entry.level, entry.data_version) == ("verified", "tensors", UNKNOWN_DATA)
    assert entry.run.startswith("adopt-")
    original = SOUND / where if (SOUND / where).is_dir() else (SOUND / where).parent
    copied = content(store.root / entry.folder)
    assert {name: copied[name] for name in content(original)} == content(original)
    assert Ledger(store, "gpt", "v1").state().claim is None


@pytest.mark.parametrize(
    ("what", "layout", "num_tensors"),
    [
        ("torchtitan/step-300", "distributed", 3),
        ("hf-trainer/checkpoint-300/model-00001-of-00002.safetensors", "safetensors", 1),
        ("hf-trainer/checkpoint-300/model*", "safetensors", 3),
    ],
    ids=["a distributed folder", "one safetensors file", "safetensors with an index"],
)
def test_what_does_not_say_its_step_is_told(
    store: LocalStore, tmp_path: Path, what: str, layout: str, num_tensors: int
) -> None:
    folder = tmp_path / "weights"
    folder.mkdir()
    for path in SOUND.glob(what):
        shutil.copytree(path, folder, dirs_exist_ok=True) if path.is_dir() else shutil.copy(path, folder)
    with pytest.raises(BadInput, match="step"):
        adopt(store, str(folder), experiment="gpt", model_version="v1")

    adopted = adopt(store, str(folder), experiment="gpt", model_version="v1", step=7)

    assert (adopted.checkpoint, adopted.layout, adopted.num_tensors) == ("step-7-term-1", layout, num_tensors)


def test_what_is_known_about_it_is_kept(store: LocalStore) -> None:
    adopt(store, str(SOUND / "hf-trainer" / "checkpoint-300"), experiment="gpt", model_version="v1",
          data_version=DATA_VERSION, step=299)  # fmt: skip

    entry = Ledger(store, "gpt", "v1").state().checkpoints["step-299-term-1"]
    assert (entry.data_version, entry.metrics, entry.world_size) == (DATA_VERSION, {"loss": 2.5}, 1)


def test_training_resumes_from_it(store: LocalStore) -> None:
    adopted = adopt(store, str(SOUND / "torchtitan" / "step-300"), experiment="gpt", model_version="v1",
                    data_version=DATA_VERSION)  # fmt: skip
    ledger = a_ledger(store)

    source = select_source(ledger, store, resume=LATEST, data_version=DATA_VERSION, run="gpt-aaaaa")

    assert (source.checkpoint, source.step, source.folder) == ("step-300-term-1", 300, adopted.folder)


def test_it_joins_those_that_are_there(store: LocalStore, tmp_path: Path) -> None:
    ledger = a_ledger(store)
    a_checkpoint(ledger, a_stage(tmp_path / "stage"), step=10, term=a_begun_run(ledger), verified="tensors")
    release(ledger, run="gpt-aaaaa", outcome="Succeeded")

    adopted = adopt(store, str(SOUND / "torch"), experiment="gpt", model_version="v1")
    again = adopt(store, str(SOUND / "torch"), experiment="gpt", model_version="v1")

    assert (adopted.checkpoint, again.checkpoint) == ("step-300-term-2", "step-300-term-3")
    assert [entry.checkpoint for entry in ledger.state().newest_first("verified")] == [
        "step-300-term-3", "step-300-term-2", "step-10-term-1",
    ]  # fmt: skip


def test_a_running_run_is_not_fenced(store: LocalStore) -> None:
    ledger = a_ledger(store)
    claim(ledger, run="gpt-aaaaa", owner=this_process(target="local"), is_gone=lambda owner: False)
    seq = ledger.state().seq

    with pytest.raises(RunActive, match=r"run gpt-aaaaa .* has been running gpt/v1"):
        adopt(store, str(SOUND / "torch"), experiment="gpt", model_version="v1")

    assert ledger.state().seq == seq


def test_a_damaged_one_is_refused_before_anything_is_written(store: LocalStore, tmp_path: Path) -> None:
    folder = shutil.copytree(SOUND / "torchtitan" / "step-300", tmp_path / "step-300")
    path = folder / "__1_0.distcp"
    path.write_bytes(path.read_bytes()[:-100])
    before = content(folder)

    with pytest.raises(VerificationFailed, match=r"__1_0\.distcp, tensor model\.count, byte \d+: lies beyond the end"):
        adopt(store, str(folder), experiment="gpt", model_version="v1")

    assert not store.root.exists() or list(store.list("checkpoints")) == []
    assert content(folder) == before


def test_a_hostile_one_is_refused_and_nothing_runs(store: LocalStore, tmp_path: Path) -> None:
    damage = Path(__file__).parents[2] / "damage"
    for name in ("pt-runs-os-system", "dcp-metadata-runs-code", "pt-plain-pickle-runs-subprocess", "bin-runs-code"):
        folder = tmp_path / name
        shutil.copytree(damage / name / "checkpoint", folder)
        (folder / "MANIFEST.json").unlink()

        with pytest.raises(VerificationFailed):
            adopt(store, str(folder), experiment="gpt", model_version="v1", step=1)

    assert not Path("harm").exists()


def test_names_that_cannot_be_used_are_told_together(store: LocalStore) -> None:
    with pytest.raises(BadInput) as caught:
        adopt(store, "nowhere", experiment="Big Name", model_version="../v1", data_version="", step=-1)

    assert [problem.where for problem in caught.value.problems] == [
        "experiment",
        "model_version",
        "data_version",
        "step",
    ]


def test_a_file_that_changes_meanwhile_is_refused(store: LocalStore, tmp_path: Path) -> None:
    folder = shutil.copytree(SOUND / "torch", tmp_path / "step-300")

    def still_writing(text: str) -> None:
        if text.startswith("copying"):
            with (folder / "model.pt").open("ab") as file:
                file.write(b"more")

    with pytest.raises(BadInput, match=r"CheckpointChanged: model\.pt changed while it was being copied"):
        adopt(store, str(folder), experiment="gpt", model_version="v1", on_progress=still_writing)

    state = Ledger(store, "gpt", "v1").state()
    assert (dict(state.checkpoints), state.claim) == ({}, None)


def test_one_of_another_storage_keeps_its_step_and_needs_no_other_file(store: LocalStore, tmp_path: Path) -> None:
    other = LocalStore(tmp_path / "other")
    theirs = adopt(other, str(SOUND / "torch"), experiment="gpt", model_version="v1", step=7)

    ours = adopt(store, str(other.root / theirs.folder), experiment="gpt", model_version="v2")

    assert (ours.layout, ours.step, ours.num_files) == ("Argosy", 7, 1)
    with pytest.raises(BadInput, match="AlreadyThere"):
        adopt(store, str(store.root / ours.folder), experiment="gpt", model_version="v3")


def test_retention_never_reaches_the_original(store: LocalStore, tmp_path: Path) -> None:
    folder = shutil.copytree(SOUND / "torch", tmp_path / "step-300")
    adopted = adopt(store, str(folder), experiment="gpt", model_version="v1")

    copy = store.root / adopted.folder / "model.pt"
    assert os.stat(copy).st_ino != os.stat(folder / "model.pt").st_ino
    assert not copy.is_symlink()


def test_from_a_bucket_to_a_bucket(s3_store: S3Store, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    for path in (SOUND / "megatron" / "iter_0000300").iterdir():
        s3_store.create(f"theirs/iter_0000300/{path.name}", path.read_bytes())

    adopted = adopt(s3_store, f"{s3_store.uri}/theirs/iter_0000300", experiment="gpt", model_version="v1")

    assert (adopted.layout, adopted.step, adopted.num_files) == ("Megatron", 300, 6)
    assert Ledger(s3_store, "gpt", "v1").state().checkpoints[adopted.checkpoint].status == "verified"
