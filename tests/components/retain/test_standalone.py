"""`python -m components.retain URI`: plain options, no workflow."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from components.ledger.ledger import Ledger
from components.storage.local import LocalStore
from tests.components.ledger.building import a_begun_run, a_checkpoint, a_ledger, a_stage
from tests.fakes.s3_server import S3Server

ROOT = Path(__file__).parents[3]


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    ledger, stage = a_ledger(LocalStore(tmp_path / "storage")), a_stage(tmp_path / "stage")
    term = a_begun_run(ledger)
    for step in (10, 20, 30):
        a_checkpoint(ledger, stage, step=step, term=term, metrics={"loss": step / 10}, verified="tensors")
    return ledger


def retain(
    ledger: Ledger, *arguments: str, environment: Mapping[str, str] = MappingProxyType({})
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "components.retain", ledger.store.uri, "--experiment", "gpt", *arguments],
        cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip


def num_retired(ledger: Ledger) -> int:
    return len(a_ledger(ledger.store).state().newest_first("retired"))


def test_a_dry_run_changes_nothing(ledger: Ledger) -> None:
    done = retain(ledger, "--keep-last", "2", "--dry-run")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[2].startswith("delete  step-10-term-1  verified, but older")
    assert num_retired(ledger) == 0


def test_the_rules_are_options(ledger: Ledger) -> None:
    assert retain(ledger, "--keep-last", "2", "--keep-best", "loss:min:1").returncode == 0
    assert retain(ledger, "--keep-last", "2", "--keep-for", "7d").returncode == 0
    assert retain(ledger, "--keep-last", "2", "--keep-every-steps", "10").returncode == 0
    assert num_retired(ledger) == 0

    assert retain(ledger, "--keep-last", "2").returncode == 0
    assert num_retired(ledger) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--keep-last", "1"], "--keep-last: Input should be greater than or equal to 2"),
        (["--keep-for", "soon"], "--keep-for: not a duration"),
        (["--keep-best", "loss:low"], "--mode: Input should be 'min' or 'max'"),
        (["--no-such"], "unrecognized arguments: --no-such"),
        (["--model-version", "../other"], "--model-version: '../other' is not lowercase letters"),
        (["--experiment", ".."], "--experiment: '..' is not lowercase letters"),
    ],
)
def test_wrong_options_are_bad_input(ledger: Ledger, arguments: list[str], said: str) -> None:
    done = retain(ledger, *arguments)

    assert done.returncode == 78
    assert said in done.stderr
    assert num_retired(ledger) == 0


def test_a_plain_folder_is_a_storage_too(ledger: Ledger, tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    argv = [sys.executable, "-m", "components.retain", "storage", "--experiment", "gpt", "--keep-last", "2"]
    done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=False)

    assert (done.returncode, num_retired(ledger)) == (0, 1)


def test_where_there_is_nothing_it_says_of_what(ledger: Ledger) -> None:
    done = retain(ledger, "--model-version", "v9")

    assert done.returncode == 0
    assert done.stdout == f"no checkpoints of gpt/v9 are in {ledger.store.uri}\n"


def test_a_bucket_is_cleaned_from_the_environment(s3_server: S3Server, tmp_path: Path) -> None:
    ledger, stage = a_ledger(s3_server.new_store()), a_stage(tmp_path / "stage")
    term = a_begun_run(ledger)
    for step in (10, 20, 30):
        a_checkpoint(ledger, stage, step=step, term=term, verified="tensors")

    done = retain(ledger, "--keep-last", "2", environment=s3_server.environment)

    assert (done.returncode, num_retired(ledger)) == (0, 1)
    assert not list(ledger.store.list(ledger.state().checkpoints["step-10-term-1"].folder))
