"""The retain stage: outputs, the plan document, and its account of what earlier turns of the same run deleted."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from components.contracts.retention import RetentionPlan
from components.ledger.ledger import Ledger
from components.storage.local import LocalStore
from tests.components.ledger.building import a_begun_run, a_checkpoint, a_ledger, a_stage


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return a_ledger(LocalStore(tmp_path / "storage"))


@pytest.fixture
def stage(tmp_path: Path) -> Path:
    return a_stage(tmp_path / "stage")


def retain(ledger: Ledger, policy: dict[str, object] | None, *, run: str = "gpt-aaaaa") -> tuple[int, dict[str, str]]:
    spec = {"experiment": "gpt", "model_version": "v1", "policy": policy}
    out = Path(ledger.store.uri.removeprefix("file://")).parent / "out"
    result = subprocess.run(
        [
            sys.executable, "-m", "components.retain", "--spec", json.dumps(spec), "--storage", ledger.store.uri,
            "--run", run, "--task", "retain",
        ],
        cwd=Path(__file__).parents[3], capture_output=True, text=True, check=False, timeout=60,
        env={**os.environ, "ARGOSY_OUT": str(out), "ARGOSY_TERMINATION_LOG": os.devnull},
    )  # fmt: skip
    return result.returncode, {path.name: path.read_text() for path in out.iterdir()} if out.exists() else {}


def test_kept_and_deleted_are_outputs_and_the_plan_says_why(ledger: Ledger, stage: Path) -> None:
    term = a_begun_run(ledger)
    for step in (10, 20, 30):
        a_checkpoint(ledger, stage, step=step, term=term, verified="tensors")

    first = retain(ledger, {"keep_last": 2})
    second = retain(ledger, {"keep_last": 2})

    assert first == second == (0, {"kept": "step-30-term-1,step-20-term-1", "deleted": "step-10-term-1"})
    plan = RetentionPlan.from_bytes(ledger.store.read("runs/gpt-aaaaa/retention.json"), where="")
    assert [(item.checkpoint, item.action) for item in plan.decisions] == [
        ("step-30-term-1", "keep"), ("step-20-term-1", "keep"), ("step-10-term-1", "delete"),
    ]  # fmt: skip
    assert plan.decisions[2].reason == "verified, but older than the newest 2 verified and kept by no rule"


def test_what_another_run_deleted_is_not_this_runs_doing(ledger: Ledger, stage: Path) -> None:
    term = a_begun_run(ledger)
    for step in (10, 20, 30):
        a_checkpoint(ledger, stage, step=step, term=term, verified="tensors")
    retain(ledger, {"keep_last": 2})

    assert retain(ledger, {"keep_last": 2}, run="gpt-bbbbb")[1]["deleted"] == ""


def test_keep_last_1_is_refused(ledger: Ledger) -> None:
    assert retain(ledger, {"keep_last": 1}) == (78, {})


def test_without_checkpoints_there_is_nothing_to_do(ledger: Ledger) -> None:
    assert retain(ledger, None) == (0, {"kept": "", "deleted": ""})
