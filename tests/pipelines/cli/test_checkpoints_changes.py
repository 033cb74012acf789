"""checkpoints verify, pin, adopt, retain, export and diff: what people do with a ledger, without a workflow."""

import json
from pathlib import Path
from typing import Any

import pytest

from components.contracts.checkpoint import Lineage
from components.contracts.layout import checkpoint_folder
from components.ledger.ledger import Ledger, commit, mark_verified, quarantine
from components.ledger.publish import publish_files, write_manifest
from components.storage.local import LocalStore
from infra.local import client
from pipelines.cli.main import run
from tests.components.ledger.building import (
    DATA_VERSION,
    a_begun_run,
    a_checkpoint,
    a_ledger,
    a_stage,
    safetensors_bytes,
)
from tests.pipelines.cli.conftest import a_manifest

RUN = "gpt-aaaaa"


class Shell:
    """The command line on one storage; `said` and `complained` are what the last command printed."""

    def __init__(self, ledger: Ledger, capsys: pytest.CaptureFixture[str]) -> None:
        self.ledger, self._capsys = ledger, capsys
        self.said = self.complained = ""

    def __call__(self, command: str, *arguments: str) -> int:
        where = ["--experiment", "gpt", "--storage", self.ledger.store.uri]
        code = run(["checkpoints", command, *arguments, *where])
        self.said, self.complained = self._capsys.readouterr()
        return code

    def json(self, command: str, *arguments: str) -> Any:
        assert self(command, *arguments, "-o", "json") == 0, self.complained
        return json.loads(self.said)

    def statuses(self) -> dict[int, str]:
        return {entry.step: entry.status for entry in a_ledger(self.ledger.store).state().checkpoints.values()}


@pytest.fixture
def shell(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    """Steps 100 to 400 of `gpt v1`: the last is only committed, the others are verified."""
    ledger, stage = a_ledger(LocalStore(tmp_path / "storage")), a_stage(tmp_path / "stage")
    term = a_begun_run(ledger, RUN)
    for step in (100, 200, 300):
        a_checkpoint(ledger, stage, step=step, term=term, metrics={"loss": 400 / step}, verified="digests")
    a_checkpoint(ledger, stage, step=400, term=term)
    return Shell(ledger, capsys)


def test_verify_reads_a_checkpoint_and_records_the_verdict(shell: Shell) -> None:
    value = shell.json("verify", "400")

    assert (value["checkpoint"], value["verdict"], value["level"]) == ("step-400-term-1", "verified", "tensors")
    assert (value["num_files"], value["num_tensors"]) == (2, 1)
    assert shell.statuses()[400] == "verified"


def test_verify_quarantines_what_is_damaged(shell: Shell) -> None:
    key = f"{shell.ledger.state().checkpoints['step-300-term-1'].folder}/state.json"
    shell.ledger.store.replace(key, b'{"step": 2}')

    assert shell("verify", "300") == 96
    assert "state.json: SHA-256 differs" in shell.complained
    assert shell.statuses()[300] == "quarantined"
    assert shell("verify", "300") == 78
    assert shell.complained.startswith("CheckpointNotUsable: step-300-term-1 is quarantined")


def test_a_pinned_checkpoint_survives_any_policy_until_the_last_pin_is_gone(shell: Shell) -> None:
    assert shell.json("pin", "100", "--by", "ada") == {"checkpoint": "step-100-term-1", "pins": ["ada"]}
    assert shell("pin", "100", "--by", "bob") == 0
    assert shell.said == "step-100-term-1 is pinned by ada, bob\n"
    assert shell("retain", "--keep-last", "2") == 0
    assert shell.statuses() == {100: "verified", 200: "verified", 300: "verified", 400: "committed"}

    assert shell("unpin", "100", "--by", "ada") == 0
    assert shell("unpin", "100", "--by", "bob") == 0
    assert shell.said == "step-100-term-1 is not pinned\n"
    assert shell("retain", "--keep-last", "2") == 0
    assert shell.statuses()[100] == "retired"


def test_a_dry_run_says_what_would_go_and_changes_nothing(shell: Shell) -> None:
    before = a_ledger(shell.ledger.store).state()

    value = shell.json("retain", "--keep-last", "2", "--dry-run")

    decisions = [(item["checkpoint"], item["action"]) for item in value["decisions"]]
    assert decisions == [
        ("step-400-term-1", "keep"), ("step-300-term-1", "keep"), ("step-200-term-1", "keep"),
        ("step-100-term-1", "delete"),
    ]  # fmt: skip
    assert all(item["reason"] for item in value["decisions"])
    assert value["frees_bytes"] == 102
    assert a_ledger(shell.ledger.store).state() == before


def test_retain_deletes_and_says_why(shell: Shell) -> None:
    assert shell("retain", "--keep-last", "2", "--keep-every-steps", "100") == 0
    assert "delete" not in shell.said

    assert shell("retain", "--keep-last", "2") == 0
    lines = shell.said.splitlines()
    assert lines[4].split()[:2] == ["delete", "step-100-term-1"]
    assert lines[4].endswith("verified, but older than the newest 2 verified and kept by no rule")
    assert lines[-1] == "1 of 4 gone, 102 B"
    assert shell.statuses()[100] == "retired"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "no policy is known"),
        (["--keep-last", "1"], "greater than or equal to 2"),
        (["--keep-last", "2", "--keep-for", "long"], "not a duration"),
    ],
)
def test_a_policy_that_is_none_is_refused(shell: Shell, arguments: list[str], said: str) -> None:
    assert shell("retain", *arguments) == 78
    assert said in shell.complained
    assert "retired" not in shell.statuses().values()


def test_keep_for_keeps_what_is_young(shell: Shell) -> None:
    assert shell("retain", "--keep-last", "2", "--keep-for", "1h") == 0
    assert "retired" not in shell.statuses().values()


def test_the_policy_of_a_description_is_the_default(shell: Shell, tmp_path: Path) -> None:
    description = tmp_path / "run.yaml"
    assert run(["init", str(description)]) == 0
    text = description.read_text()
    assert "  # keep_for:" in text
    description.write_text(text.replace("  # keep_for:", "  keep_for: 7d"))
    shell("list")  # drops what init printed

    value = shell.json("retain", "--dry-run", "-c", str(description), "--keep-every-steps", "150")

    best = {"metric": "loss", "mode": "min", "count": 1}
    assert value["policy"] == {"keep_last": 2, "keep_best": best, "keep_for": 604800.0, "keep_every_steps": 150}
    assert {item["action"] for item in value["decisions"]} == {"keep"}


@pytest.mark.parametrize(("model_version", "keep_last"), [("v1", 5), ("v9", None)])
def test_the_policy_of_a_named_experiment_is_that_of_its_newest_run(
    shell: Shell, home: Path, model_version: str, keep_last: int | None
) -> None:
    for run_name, experiment, count in (("gpt-b2c4d", "gpt", 4), ("gpt-c2c4d", "gpt", 5), ("tiny-d2c4d", "tiny", 6)):
        client.create_run(
            home=home, manifest=a_manifest({"launch": "true"}), run=run_name, experiment=experiment,
            model_version=model_version, parameters={"storage": shell.ledger.store.uri},
            description={"retain": {"keep_last": count}}, argv=["pipelines/train.py", "submit"],
        )  # fmt: skip

    code = shell("retain", "--dry-run", "-o", "json")

    assert code == (78 if keep_last is None else 0)
    assert (json.loads(shell.said)["policy"] if shell.said else {}).get("keep_last") == keep_last
    assert ("no policy is known" in shell.complained) == (keep_last is None)


def test_export_copies_to_a_new_folder(shell: Shell, tmp_path: Path) -> None:
    out = tmp_path / "out"

    value = shell.json("export", "300", str(out))

    assert [file["path"] for file in value["files"]] == ["model.safetensors", "state.json"]
    assert (out / "model.safetensors").read_bytes() == safetensors_bytes()
    assert shell("export", "300", str(out)) == 78
    assert shell.complained.startswith("FolderExists")
    assert shell("export", "300", str(tmp_path / "st"), "--format", "safetensors") == 0
    assert [path.name for path in (tmp_path / "st").iterdir()] == ["model.safetensors"]


@pytest.mark.parametrize("inside", ["checkpoints/gpt/out", "runs/out", "data/shards/out"])
def test_export_into_the_storages_own_folders_is_refused(shell: Shell, tmp_path: Path, inside: str) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "storage")

    for root in ("storage", "link"):
        assert shell("export", "300", str(tmp_path / root / inside)) == 78
        assert shell.complained.startswith("FolderInStorage")
    assert not (tmp_path / "storage" / inside).exists()


@pytest.mark.parametrize("by", ["ada\nbob", "a" * 201, " ", ""])
def test_who_pins_is_a_name_on_one_line(shell: Shell, by: str) -> None:
    assert shell("pin", "100", "--by", by) == 78
    assert shell.complained.startswith("Usage: --by is no name")
    assert shell.ledger.state().checkpoints["step-100-term-1"].pins == frozenset()


def test_verify_without_a_name_takes_the_newest_good_one_and_never_a_quarantined_one(shell: Shell) -> None:
    for step in (300, 200, 100):
        quarantine(shell.ledger, checkpoint=f"step-{step}-term-1", reason="NaN")
    folder = shell.ledger.state().checkpoints["step-400-term-1"].folder
    a_checkpoint(shell.ledger, a_stage(shell.ledger.store.root.parent / "more"), step=500, term=1, quarantined="NaN")

    assert shell.json("verify")["checkpoint"] == "step-400-term-1"
    shell.ledger.store.replace(f"{folder}/state.json", b'{"step": 2}')
    assert shell("verify") == 96
    assert shell("verify") == 78
    assert shell.complained.startswith("NoCheckpoints: every checkpoint of gpt/v1 is quarantined or retired")


def test_adopt_takes_in_a_checkpoint_of_another_program(shell: Shell, tmp_path: Path) -> None:
    foreign = tmp_path / "checkpoint-700"
    foreign.mkdir()
    (foreign / "model.safetensors").write_bytes(safetensors_bytes())
    (foreign / "trainer_state.json").write_text('{"global_step": 700}')

    assert shell("adopt", str(foreign), "--data-version", DATA_VERSION) == 78  # gpt-aaaaa may still be running
    assert shell.complained.splitlines()[-1].startswith("RunActive: run gpt-aaaaa")
    code = run(["checkpoints", "adopt", str(foreign), "--experiment", "new", "--storage", shell.ledger.store.uri])
    assert code == 0
    assert a_ledger(shell.ledger.store, experiment="new").state().newest_first()[0].step == 700


def test_show_tells_what_made_a_checkpoint(shell: Shell, tmp_path: Path) -> None:
    ledger, store = shell.ledger, shell.ledger.store
    term = a_begun_run(ledger, RUN, source="step-300-term-1", generation=1)
    folder = checkpoint_folder("gpt", "v1", DATA_VERSION, step=500, term=term)
    stage = a_stage(tmp_path / "later", {"model.safetensors": safetensors_bytes({"weight": [1.0] * 5})})
    receipt = publish_files(store, folder=folder, source=stage, node_rank=0, term=term, step=500)
    manifest, sha256 = write_manifest(
        store, receipts=[receipt], experiment="gpt", model_version="v1", data_version=DATA_VERSION, run=RUN, term=term,
        step=500, world_size=1, parent="step-300-term-1", metrics={"loss": 0.5},
        lineage=Lineage(config_digest="c" * 64, image="registry/train@sha256:1", code="train.py sha256:2"),
    )  # fmt: skip
    commit(ledger, manifest=manifest, manifest_sha256=sha256)
    mark_verified(ledger, checkpoint=manifest.checkpoint, level="tensors")

    lineage = shell.json("show", "500")["lineage"]
    assert lineage == {
        "config_digest": "c" * 64, "image": "registry/train@sha256:1", "code": "train.py sha256:2",
        "data_version": DATA_VERSION, "run": RUN, "world_size": 1, "parents": ["step-300-term-1"],
    }  # fmt: skip
    assert shell("show", "500") == 0
    assert ["image", "registry/train@sha256:1"] in [line.split() for line in shell.said.splitlines()]
    assert ["resumed", "from", "step-300-term-1"] in [line.split() for line in shell.said.splitlines()]

    value = shell.json("diff", "300", "500")
    assert value["metrics"] == {"loss": {"old": 400 / 300, "new": 0.5}}
    assert value["tensors"] == {"model.safetensors:weight": {"old": "F32[4]", "new": "F32[5]"}}
    assert list(value["files"]) == ["model.safetensors", "state.json"]
    assert value["files"]["state.json"]["new"] is None
    assert value["made by"]["image"] == {"old": None, "new": "registry/train@sha256:1"}
    assert shell("diff", "300", "500") == 0
    assert "tensors: 1 of 1 in both differ" in shell.said
    assert shell("diff", "200", "200") == 0
    assert "files: the same" in shell.said


@pytest.mark.parametrize("command", ["show", "verify", "pin", "unpin"])
def test_an_unknown_checkpoint_is_answered_with_the_nearest(shell: Shell, command: str) -> None:
    assert shell(command, "step-300-term-2") == 78
    assert "did you mean step-300-term-1" in shell.complained


def test_an_unknown_command_is_answered_with_the_nearest(shell: Shell) -> None:
    assert shell("verfy") == 78
    assert "did you mean 'verify'?" in shell.complained
