"""checkpoints list and show: the ledger for people and for programs."""

import json
from pathlib import Path

import pytest

from components.contracts import layout
from components.contracts.records import RunRecord
from components.contracts.retention import Decision, RetentionPlan
from components.ledger.ledger import Ledger, pin, quarantine
from components.storage.local import LocalStore
from tests.components.ledger.building import a_begun_run, a_checkpoint, a_ledger, a_stage
from tests.pipelines.cli.conftest import argosy

RUN = "gpt-aaaaa"


@pytest.fixture
def storage(home: Path, tmp_path: Path) -> str:
    """Four checkpoints of `gpt v1`: the newest is quarantined, the oldest only committed and pinned."""
    store = LocalStore(tmp_path / "storage")
    ledger, stage = a_ledger(store), a_stage(tmp_path / "stage")
    term = a_begun_run(ledger, RUN)
    a_checkpoint(ledger, stage, step=100, term=term, metrics={"loss": 3.25})
    pin(ledger, checkpoint="step-100-term-1", by="ada")
    a_checkpoint(ledger, stage, step=200, term=term, metrics={"loss": 2.75}, verified="digests")
    a_checkpoint(ledger, stage, step=300, term=term, metrics={"loss": 2.5}, verified="tensors")
    a_checkpoint(ledger, stage, step=400, term=term, quarantined="weight holds 2 NaN")
    plan = RetentionPlan(
        decisions=(Decision(checkpoint="step-300-term-1", step=300, action="keep", reason="of an older state"),)
    )
    store.replace(layout.retention_plan_key(RUN), plan.to_bytes())
    record = RunRecord(
        run=RUN, experiment="gpt", model_version="v1", target="local", workflow=RUN, created_at="2026-11-29T12:00:00Z",
        description={"retain": {"keep_last": 2}},
    )  # fmt: skip
    store.create(layout.run_record_key(RUN), record.to_bytes())
    return store.uri


def options(storage: str) -> list[str]:
    return ["--experiment", "gpt", "--storage", storage]


def test_checkpoints_are_listed_with_all_that_is_known(storage: str):
    value = json.loads(argosy("checkpoints", "list", *options(storage), "-o", "json").stdout)

    assert value["running"]["run"] == RUN
    rows = [
        (row["step"], row["status"], row.get("level"), row["metrics"], row["pinned"], row["kept_because"])
        for row in value["checkpoints"]
    ]
    assert rows == [
        (400, "quarantined", None, {}, False, "newest quarantined, for inspection: weight holds 2 NaN"),
        (300, "verified", "tensors", {"loss": 2.5}, False, "keep_last: number 1 of the newest 2 verified"),
        (200, "verified", "digests", {"loss": 2.75}, False, "keep_last: number 2 of the newest 2 verified"),
        (100, "committed", None, {"loss": 3.25}, True, "pinned by ada"),
    ]
    assert {row["size_bytes"] for row in value["checkpoints"]} == {102}


def test_the_list_reads_for_people(storage: str):
    lines = argosy("checkpoints", "list", *options(storage)).stdout.splitlines()

    columns = lines[2].split()
    assert columns == ["CHECKPOINT", "STEP", "TERM", "STATUS", "METRICS", "SIZE", "RUN", "KEPT", "BECAUSE"]
    assert lines[3].startswith("step-400-term-1  400   1     quarantined")
    assert lines[3].endswith(f"  102 B  {RUN}  newest quarantined, for inspection: weight holds 2 NaN")
    assert lines[6].endswith(f"{RUN}  pinned by ada")
    assert lines[7].startswith(f"being trained by {RUN} (")


def test_list_show_and_retain_agree_on_what_the_ledger_says_now(storage: str):
    ledger = Ledger(LocalStore(Path(storage.removeprefix("file://"))), "gpt", "v1")
    pin(ledger, checkpoint="step-200-term-1", by="bob")
    for step in (200, 300):
        quarantine(ledger, checkpoint=f"step-{step}-term-1", reason="model.safetensors: SHA-256 differs")

    listed = json.loads(argosy("checkpoints", "list", *options(storage), "-o", "json").stdout)["checkpoints"]
    planned = json.loads(argosy("checkpoints", "retain", "--dry-run", *options(storage), "-o", "json").stdout)
    shown = json.loads(argosy("checkpoints", "show", "step-200-term-1", *options(storage), "-o", "json").stdout)

    kept = {item["checkpoint"]: item["reason"] for item in planned["decisions"] if item["action"] == "keep"}
    assert planned["policy"]["keep_last"] == 2
    assert {row["checkpoint"]: row["kept_because"] for row in listed if row["kept_because"]} == kept
    assert kept == {
        "step-400-term-1": "newest quarantined, for inspection: weight holds 2 NaN",
        "step-200-term-1": "pinned by bob", "step-100-term-1": "pinned by ada",
    }  # fmt: skip
    assert shown["kept_because"] == "pinned by bob"


@pytest.mark.parametrize(
    ("name", "found"),
    [
        (None, "step-300-term-1"),
        ("step-200-term-1", "step-200-term-1"),
        ("200", "step-200-term-1"),
        ("step-400", "step-400-term-1"),
    ],
)
def test_a_checkpoint_is_found_by_id_or_step_and_otherwise_the_newest_verified_one(storage: str, name, found):
    arguments = [name] if name else []

    value = json.loads(argosy("checkpoints", "show", *arguments, *options(storage), "-o", "json").stdout)

    assert value["checkpoint"] == found
    assert [file["path"] for file in value["manifest"]["files"]] == ["model.safetensors", "state.json"]


def test_a_checkpoint_that_does_not_exist_suggests_the_nearest(storage: str):
    done = argosy("checkpoints", "show", "step-200-term-2", *options(storage))

    assert done.returncode == 78
    assert "gpt/v1 has no checkpoint step-200-term-2" in done.stderr
    assert "step-200-term-1" in done.stderr


def test_an_experiment_without_checkpoints_says_so(storage: str):
    listed = argosy("checkpoints", "list", "--experiment", "other", "--storage", storage)
    shown = argosy("checkpoints", "show", "--experiment", "other", "--storage", storage)

    assert (listed.returncode, listed.stdout) == (0, f"no checkpoints of other v1 in {storage}\n")
    assert (shown.returncode, shown.stderr.partition(":")[0]) == (78, "NoCheckpoints")


@pytest.mark.parametrize("name", ["../x", "A", "a/b"])
def test_a_name_that_is_no_name_is_refused(storage: str, name: str):
    done = argosy("checkpoints", "list", "--experiment", name, "--storage", storage)

    assert (done.returncode, done.stderr.partition(":")[0]) == (78, "Usage")


def test_a_damaged_ledger_is_named_and_nothing_is_hidden(storage: str):
    record = Path(storage.removeprefix("file://"), "checkpoints/gpt/v1/log/000000000003.json")
    record.write_bytes(record.read_bytes()[:40])

    done = argosy("checkpoints", "list", *options(storage))

    assert done.returncode == 78
    assert "000000000003.json" in done.stderr
