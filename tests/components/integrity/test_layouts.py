"""Whose checkpoint it is and of which step; and places that are none, each told by what is wrong with it."""

import os
import shutil
from pathlib import Path

import pytest

from components.errors import BadInput
from components.integrity.examine_place import examine_place
from components.integrity.layouts import recognise, step_of
from components.integrity.place import find_place
from components.storage.base import ObjectStore
from components.storage.s3 import S3Store
from tests.components.integrity.looking import SOUND
from tests.damage.torch_like import archive, tensor
from tests.fakes.s3_server import S3Server


@pytest.mark.parametrize(
    ("where", "kind", "step", "world_size", "metrics"),
    [
        ("torch/model.pt", "torch", 300, 1, {}), ("torch", "torch", 300, 1, {}),
        ("lightning", "Lightning", 300, 1, {}), ("lightning/epoch=0-step=300.ckpt", "Lightning", 300, 1, {}),
        ("hf-trainer/checkpoint-300", "HF Trainer", 300, 1, {"loss": 2.5}),
        ("torchtitan/step-300", "torchtitan", 300, 2, {}), ("megatron/iter_0000300", "Megatron", 300, 2, {}),
    ],
)  # fmt: skip
def test_layouts_are_recognised_with_their_step(
    where: str, kind: str, step: int, world_size: int, metrics: dict[str, float]
) -> None:
    layout = recognise(find_place(str(SOUND / where)))

    assert (layout.kind, layout.world_size, layout.metrics) == (kind, world_size, metrics)
    assert step_of(layout, given=None, where=where) == step


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("step-12", 12), ("step_00000012", 12), ("global_step12", 12), ("checkpoint-12", 12), ("iter_0000012", 12),
        ("gpt-step=12", 12), ("epoch=3-step=12", 12), ("ckpt-12", 12), ("my-model", None), ("v12", None),
        ("footstep-x", None),
    ],
)  # fmt: skip
def test_the_step_in_a_folder_s_name(tmp_path: Path, name: str, step: int | None) -> None:
    folder = tmp_path / name
    folder.mkdir()
    (folder / "model.pt").write_bytes(archive({"w": tensor("0", [1])}, {"0": bytes(4)}))

    layout = recognise(find_place(str(folder)))

    assert list(layout.steps.values()) == ([] if step is None else [step])


def test_no_step_and_two_steps_are_told(tmp_path: Path) -> None:
    folder = shutil.copytree(SOUND / "hf-trainer" / "checkpoint-300", tmp_path / "checkpoint-299")
    nameless = tmp_path / "model.pt"
    nameless.write_bytes(archive({}, {}))

    with pytest.raises(BadInput, match=r"checkpoint-299 says 299, trainer_state\.json says 300; say which it is"):
        step_of(recognise(find_place(str(folder))), given=None, where="here")
    with pytest.raises(BadInput, match=r"UnknownStep: neither the name nor the files of here say the step.*--step <n>"):
        step_of(recognise(find_place(str(nameless))), given=None, where="here")
    assert step_of(recognise(find_place(str(folder))), given=7, where="here") == 7


def refusal(where: object) -> BadInput:
    with pytest.raises(BadInput) as caught:
        recognise(find_place(str(where)))
    return caught.value


def test_what_is_no_checkpoint_is_told_with_what_was_looked_for(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    assert refusal(tmp_path / "notes").reason == "EmptyFolder"
    (tmp_path / "notes" / "a.txt").write_text("a")
    error = refusal(tmp_path / "notes")
    assert error.reason == "UnknownFormat"
    assert "only a.txt; looked for .metadata (distributed, torchtitan), iter_<n>" in str(error)
    assert refusal(tmp_path / "nowhere").reason == "NoSuchPlace"
    assert refusal("ftp://somewhere/x").reason == "UnknownStorage"


def test_a_folder_of_several_checkpoints_asks_for_one(tmp_path: Path) -> None:
    for name in ("step-100", "step-200"):
        shutil.copytree(SOUND / "torchtitan" / "step-300", tmp_path / "outputs" / name)

    error = refusal(tmp_path / "outputs")

    assert error.reason == "SeveralCheckpoints"
    assert [problem.where.rsplit("/", 1)[1] for problem in error.problems] == ["step-100", "step-200"]


def test_links_pipes_and_odd_names_are_told_all_at_once(tmp_path: Path) -> None:
    folder = tmp_path / "step-1"
    (folder / "inner").mkdir(parents=True)
    (folder / "model.pt").write_bytes(b"")
    (folder / "loop").symlink_to("loop")
    (folder / "inner" / "round").symlink_to(folder)
    (folder / "nowhere.pt").symlink_to("missing.pt")
    (folder / "new\nline.pt").write_bytes(b"")
    (folder / "receipts").write_bytes(b"")
    os.mkfifo(folder / "pipe")

    problems = {problem.where.rsplit("/", 1)[-1]: problem.seen for problem in refusal(folder).problems}

    assert problems == {
        "loop": "is a link that leads nowhere or round in a circle", "pipe": "is not a regular file",
        "nowhere.pt": "is a link that leads nowhere or round in a circle", "round": "is a link to a folder",
        "new?line.pt": "the name contains characters that cannot be printed",
        "receipts": "the name uses the name receipts, which the platform uses itself",
    }  # fmt: skip


def test_a_link_to_a_file_counts_as_the_file(tmp_path: Path) -> None:
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "checkpoint-1"
    shutil.copytree(SOUND / "hf-trainer" / "checkpoint-300", blobs)
    snapshot.mkdir(parents=True)
    for path in blobs.iterdir():
        (snapshot / path.name).symlink_to(f"../../blobs/{path.name}")

    found = examine_place(find_place(str(snapshot)), "tensors")

    assert (found.faults, found.num_tensors) == ((), 5)


@pytest.mark.skipif(os.getuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "step-1" / "model.pt"
    path.parent.mkdir()
    path.write_bytes(b"")
    path.chmod(0)

    assert "model.pt: cannot be read: permission denied" in str(refusal(path.parent))


def test_megatron_s_digests_are_honoured(tmp_path: Path) -> None:
    folder = shutil.copytree(SOUND / "megatron" / "iter_0000300", tmp_path / "iter_0000300")
    path = folder / "metadata.json"
    path.write_text(path.read_text().replace("1", "2"))
    (folder / "__1_0.distcp").unlink()

    told = [str(fault) for fault in examine_place(find_place(str(folder)), "digests").faults]

    assert told[0] == "integrity.json: names '__1_0.distcp', which is missing"
    assert told[1].startswith("metadata.json: SHA-256 differs (expected ")
    assert len(told) == 2


def test_a_megatron_folder_of_ranks_is_recognised(tmp_path: Path) -> None:
    for rank in range(2):
        path = tmp_path / "iter_0000020" / f"mp_rank_0{rank}" / "model_optim_rng.pt"
        path.parent.mkdir(parents=True)
        path.write_bytes(archive({"iteration": 20, "model": {"w": tensor("0", [1])}}, {"0": bytes(4)}))

    layout = recognise(find_place(str(tmp_path / "iter_0000020")))

    assert (layout.kind, layout.steps, layout.world_size) == ("Megatron", {"the name iter_0000020": 20}, 2)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"global_step": 1e999}', '{"global_step": "x", "log_history": 3}', ""]
)
def test_a_state_that_says_nothing_is_no_crash(tmp_path: Path, text: str) -> None:
    folder = tmp_path / "checkpoint-5"
    folder.mkdir()
    (folder / "trainer_state.json").write_text(text)

    assert recognise(find_place(str(folder))).steps == {"the name checkpoint-5": 5}


def test_a_pickle_that_runs_code_is_not_asked_for_its_step(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    path.write_bytes(archive(None, {}, pickle=b"\x80\x02cos\nsystem\nX\x04\0\0\0harm\x85R."))

    assert recognise(find_place(str(path))).steps == {}
    assert [str(fault) for fault in examine_place(find_place(str(path)), "tensors").faults] == [
        "model.pt, byte 48: its data.pkl would run os.system when it is loaded"
    ]


def test_the_same_is_found_in_a_bucket(s3_store: S3Store, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    upload(s3_store, SOUND / "torchtitan" / "step-300", "runs/step-300")
    data = bytearray(s3_store.read("runs/step-300/__0_0.distcp"))
    data[data.index(b"\0\0\x80?\0\0\0@")] ^= 1
    upload(s3_store, SOUND / "torchtitan" / "step-300", "bad/step-300")
    s3_store.replace("bad/step-300/__0_0.distcp", bytes(data))

    good, bad = (find_place(f"{s3_store.uri}/{folder}/step-300") for folder in ("runs", "bad"))
    single = find_place(f"{s3_store.uri}/runs/step-300/.metadata")

    assert (recognise(good).kind, [file.path for file in single.files]) == ("torchtitan", [".metadata"])
    assert examine_place(good, "tensors").faults == ()
    assert "tensor model.layer.weight, byte" in str(examine_place(bad, "tensors").faults[0])
    assert refusal(f"{s3_store.uri}/nothing").reason == "EmptyFolder"


def upload(store: ObjectStore, folder: Path, key: str) -> None:
    for path in folder.iterdir():
        store.create(f"{key}/{path.name}", path.read_bytes())
