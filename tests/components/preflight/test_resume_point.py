"""Resume points and claims, by a ledger written through its own protocol."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from components.contracts.checkpoint import CheckpointManifest
from components.contracts.checks import CheckResult, CheckStatus
from components.contracts.gang import ResumeRule
from components.ledger.ledger import Ledger, begin, claim, commit, mark_verified, quarantine, release, this_process
from components.ledger.owner import Owner
from components.preflight.resume_point import claim_question, nobody_else_runs, resume_point, resume_question
from components.storage.local import LocalStore
from tests.components.preflight.conftest import a_spec


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(LocalStore(tmp_path), "e", "v1")


def train(ledger: Ledger, run: str, *steps: int) -> None:
    """A run that committed `steps` in one term and ended; the first of them verified, the last quarantined."""
    claim(ledger, run=run, owner=this_process(target="local"), is_gone=lambda owner: False)
    term = begin(ledger, run=run, generation=0, attempt=0, reason="first", charged=False, source=None)
    for step in steps:
        manifest = CheckpointManifest(
            checkpoint=f"step-{step}-term-{term}", experiment=ledger.experiment, model_version="v1", data_version="d-1",
            run=run, term=term, step=step, world_size=1, metrics={}, files=(),
        )  # fmt: skip
        commit(ledger, manifest=manifest, manifest_sha256="0" * 64)
    mark_verified(ledger, checkpoint=f"step-{steps[0]}-term-{term}", level="files")
    if len(steps) > 1:
        quarantine(ledger, checkpoint=f"step-{steps[-1]}-term-{term}", reason="a NaN in norm.weight")
    release(ledger, run=run, outcome="Succeeded")


def asked(ledger: Ledger, source: str, *, run: str = "e-new") -> CheckResult:
    question = resume_question(a_spec(resume=ResumeRule(source=source, on_new_data="refuse")))
    return resume_point(question, ledger, source=source, run=run)


@pytest.mark.parametrize(
    ("source", "measured"),
    [
        ("latest", "step-20-term-1, committed"),
        ("step:10", "step-10-term-1, verified"),
        ("step-20-term-1", "step-20-term-1, committed"),
    ],
)
def test_a_resume_point_that_exists_passes(ledger: Ledger, source: str, measured: str) -> None:
    train(ledger, "e-old", 10, 20, 30)
    assert (asked(ledger, source).status, asked(ledger, source).measured) == (CheckStatus.OK, measured)


@pytest.mark.parametrize(
    ("source", "measured"),
    [
        ("step:15", "no such checkpoint; usable: step-20-term-1, step-10-term-1"),
        ("step:30", "step-30-term-1 is quarantined: a NaN in norm.weight; usable: step-20-term-1, step-10-term-1"),
        ("step-10-term-7", "no such checkpoint; usable: step-20-term-1, step-10-term-1"),
        ("yesterday", "'yesterday' names no checkpoint"),
        ("other@latest", "other/v1 has no usable checkpoint"),
        ("e@latest", "that is this experiment itself"),
        ("fresh", "3 checkpoints"),
    ],
)
def test_a_resume_point_that_does_not_exist_is_the_inputs_fault(ledger: Ledger, source: str, measured: str) -> None:
    train(ledger, "e-old", 10, 20, 30)
    result = asked(ledger, source)
    assert (result.status, result.scope, result.hard) == (CheckStatus.FAIL, "input", True)
    assert result.measured == measured
    assert result.remedy


def test_an_experiment_without_checkpoints_starts_fresh(ledger: Ledger) -> None:
    assert asked(ledger, "latest").measured == "nothing was ever committed: a fresh start"
    assert asked(ledger, "fresh").status is CheckStatus.OK
    assert asked(ledger, "step:5").measured == "no such checkpoint; usable: none"


def test_checkpoints_that_are_all_quarantined_leave_nothing_to_resume_from(ledger: Ledger) -> None:
    train(ledger, "e-old", 10)
    quarantine(ledger, checkpoint="step-10-term-1", reason="torn")
    assert asked(ledger, "latest").status is CheckStatus.FAIL


def test_the_newest_of_another_experiment_is_found(ledger: Ledger) -> None:
    train(Ledger(ledger.store, "other", "v1"), "other-old", 40)
    assert asked(ledger, "other@latest").measured == "step-40-term-1 of other, verified"


def test_a_run_that_has_begun_goes_on_whatever_the_description_says(ledger: Ledger) -> None:
    train(ledger, "e-old", 10, 20)
    assert asked(ledger, "fresh", run="e-old").status is CheckStatus.OK


def another(pid: int) -> Owner:
    return this_process(target="local").model_copy(update={"pid": pid, "started": None})


@pytest.mark.parametrize(
    ("owner", "status"),
    [
        (lambda: another(os.getppid()), CheckStatus.WARN),
        (lambda: another(2**22 + 5), CheckStatus.OK),
    ],
)
def test_a_run_that_is_still_there_is_a_warning(
    ledger: Ledger, owner: Callable[[], Owner], status: CheckStatus
) -> None:
    claim(ledger, run="e-other", owner=owner(), is_gone=lambda owner: False)
    result = nobody_else_runs(claim_question(a_spec()), ledger, run="e-new")
    assert (result.status, result.blocks) == (status, False)
    assert "e-other" in result.measured


def test_our_own_claim_is_nobody_else(ledger: Ledger) -> None:
    claim(ledger, run="e-new", owner=this_process(target="local"), is_gone=lambda owner: False)
    assert nobody_else_runs(claim_question(a_spec()), ledger, run="e-new").measured == "no other run"
