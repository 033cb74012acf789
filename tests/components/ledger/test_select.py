"""Where a START begins: by rule, with bytes checked now, on the run's own branch, and never torn."""

from pathlib import Path

import pytest

from components.errors import BadInput, VerificationFailed
from components.ledger.ledger import Ledger
from components.ledger.records import Retire, Retired
from components.storage.local import LocalStore
from tests.components.ledger.building import a_begun_run, a_checkpoint, a_ledger, a_stage, selected


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return a_ledger(LocalStore(tmp_path / "storage"))


@pytest.fixture
def stage(tmp_path: Path) -> Path:
    return a_stage(tmp_path / "stage")


def damage(ledger: Ledger, checkpoint: str, name: str = "model.safetensors") -> None:
    path = ledger.store.local_path(f"{ledger.state().checkpoints[checkpoint].folder}/{name}")
    assert path is not None
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def three_checkpoints(ledger: Ledger, stage: Path) -> None:
    """Steps 10 and 20 verified, 30 committed only, all of the ended run gpt-aaaaa."""
    term = a_begun_run(ledger)
    a_checkpoint(ledger, stage, step=10, term=term, verified="tensors")
    a_checkpoint(ledger, stage, step=20, term=term, verified="tensors")
    a_checkpoint(ledger, stage, step=30, term=term)


def test_nothing_committed_is_a_fresh_start(ledger: Ledger) -> None:
    source = selected(ledger, "gpt-aaaaa")

    assert (source.checkpoint, source.step, source.is_fresh) == (None, 0, True)
    assert source.reason == "a fresh start: nothing was ever committed"


def test_the_newest_verified_wins_over_a_newer_unverified_one(ledger: Ledger, stage: Path) -> None:
    three_checkpoints(ledger, stage)

    source = selected(ledger, "gpt-bbbbb")

    assert (source.checkpoint, source.step) == ("step-20-term-1", 20)
    assert source.reason == "the newest good checkpoint of gpt, verified (tensors)"
    assert source.folder == "checkpoints/gpt/v1/d-0123456789abcdef/step-000000000020/term-000001"


def test_a_damaged_one_is_quarantined_and_passed_over(ledger: Ledger, stage: Path) -> None:
    three_checkpoints(ledger, stage)
    damage(ledger, "step-20-term-1")

    source = selected(ledger, "gpt-bbbbb")

    assert source.checkpoint == "step-10-term-1"
    assert "passed over: step-20-term-1 is quarantined: model.safetensors: SHA-256 differs" in source.reason
    assert a_ledger(ledger.store).state().checkpoints["step-20-term-1"].status == "quarantined"


def test_without_a_good_verified_one_the_newest_committed_is_taken(ledger: Ledger, stage: Path) -> None:
    three_checkpoints(ledger, stage)
    damage(ledger, "step-10-term-1")
    damage(ledger, "step-20-term-1")

    assert selected(ledger, "gpt-bbbbb").checkpoint == "step-30-term-1"


def test_with_nothing_good_left_training_does_not_start_over(ledger: Ledger, stage: Path) -> None:
    three_checkpoints(ledger, stage)
    for checkpoint in ("step-10-term-1", "step-20-term-1", "step-30-term-1"):
        damage(ledger, checkpoint)

    with pytest.raises(VerificationFailed, match="gpt/v1 has checkpoints, but none can be resumed from") as caught:
        selected(ledger, "gpt-bbbbb")
    assert caught.value.exit_code == 96


def test_new_data_is_refused_unless_wanted(ledger: Ledger, stage: Path) -> None:
    three_checkpoints(ledger, stage)

    with pytest.raises(BadInput, match="step-20-term-1 was trained on d-0123456789abcdef, this run's data is d-new"):
        selected(ledger, "gpt-bbbbb", data_version="d-new")
    source = selected(ledger, "gpt-bbbbb", data_version="d-new", on_new_data="continue")
    assert source.checkpoint == "step-20-term-1"
    assert source.reason.endswith("trained on d-0123456789abcdef, going on with d-new")


@pytest.mark.parametrize(("wanted", "step"), [("step:10", 10), ("step-10-term-1", 10), ("step:30", 30)])
def test_an_explicit_point_is_taken(ledger: Ledger, stage: Path, wanted: str, step: int) -> None:
    three_checkpoints(ledger, stage)

    assert selected(ledger, "gpt-bbbbb", source=wanted).step == step


def test_of_two_commits_of_one_step_the_verified_one_is_taken(ledger: Ledger, stage: Path) -> None:
    a_checkpoint(ledger, stage, step=10, term=a_begun_run(ledger), verified="tensors")
    a_checkpoint(ledger, stage, step=10, term=a_begun_run(ledger))

    assert selected(ledger, "gpt-bbbbb", source="step:10").checkpoint == "step-10-term-1"


@pytest.mark.parametrize("wanted", ["step:11", "step-10-term-9", "step:"])
def test_an_explicit_point_that_does_not_exist_lists_those_that_do(ledger: Ledger, stage: Path, wanted: str) -> None:
    three_checkpoints(ledger, stage)

    with pytest.raises(BadInput, match=f"resume.from: {wanted} names no checkpoint of gpt/v1") as caught:
        selected(ledger, "gpt-bbbbb", source=wanted)
    assert [str(problem) for problem in caught.value.problems] == [
        "step-30-term-1: step 30, committed, run gpt-aaaaa, data d-0123456789abcdef",
        "step-20-term-1: step 20, verified, run gpt-aaaaa, data d-0123456789abcdef",
        "step-10-term-1: step 10, verified, run gpt-aaaaa, data d-0123456789abcdef",
    ]


def test_a_damaged_explicit_point_is_refused_and_the_others_listed(ledger: Ledger, stage: Path) -> None:
    three_checkpoints(ledger, stage)
    damage(ledger, "step-20-term-1")

    for _ in range(2):  # the second time the ledger knows
        with pytest.raises(
            BadInput, match=r"step:20 cannot be resumed from; .*quarantined: model.safetensors"
        ) as caught:
            selected(ledger, "gpt-bbbbb", source="step:20")
        assert [problem.where for problem in caught.value.problems] == ["step-30-term-1", "step-10-term-1"]


def test_an_unreadable_wish_is_bad_input(ledger: Ledger) -> None:
    with pytest.raises(BadInput, match=r"resume.from is 'newest'; use latest, fresh, step:<n>"):
        selected(ledger, "gpt-aaaaa", source="newest")


def test_fresh_is_refused_beside_existing_checkpoints(ledger: Ledger, stage: Path) -> None:
    assert selected(ledger, "gpt-aaaaa", source="fresh").is_fresh
    three_checkpoints(ledger, stage)

    with pytest.raises(BadInput, match="NotFresh: gpt/v1 has 3 checkpoints; choose a new model_version"):
        selected(ledger, "gpt-bbbbb", source="fresh")


def test_a_fresh_run_restarts_from_its_own_checkpoint(ledger: Ledger, stage: Path) -> None:
    term = a_begun_run(ledger)
    a_checkpoint(ledger, stage, step=10, term=term, verified="tensors")

    assert selected(ledger, "gpt-aaaaa", source="fresh").checkpoint == "step-10-term-1"


def test_a_restart_before_the_first_commit_goes_back_to_the_explicit_point(ledger: Ledger, stage: Path) -> None:
    three_checkpoints(ledger, stage)
    a_begun_run(ledger, "gpt-bbbbb", source="step-10-term-1")

    assert selected(ledger, "gpt-bbbbb", source="step:10").checkpoint == "step-10-term-1"


def test_a_restart_stays_on_the_branch_of_its_run(ledger: Ledger, stage: Path) -> None:
    three_checkpoints(ledger, stage)
    term = a_begun_run(ledger, "gpt-bbbbb", source="step-10-term-1")
    a_checkpoint(ledger, stage, step=15, term=term, run="gpt-bbbbb", verified="tensors")

    assert selected(ledger, "gpt-bbbbb", source="step:10").checkpoint == "step-15-term-2"
    assert selected(ledger, "gpt-bbbbb", source="latest").checkpoint == "step-15-term-2"


def test_another_experiments_newest_is_read_where_it_lies(ledger: Ledger, stage: Path) -> None:
    other = a_ledger(ledger.store, experiment="base")
    term = a_begun_run(other, "base-aaaaa")
    a_checkpoint(other, stage, step=10, term=term, run="base-aaaaa", verified="tensors")

    source = selected(ledger, "gpt-aaaaa", source="base@latest")

    assert (source.checkpoint, source.step) == ("base@step-10-term-1", 10)
    assert source.folder == "checkpoints/base/v1/d-0123456789abcdef/step-000000000010/term-000001"


def test_a_restart_keeps_the_borrowed_checkpoint_even_when_the_other_run_went_on(ledger: Ledger, stage: Path) -> None:
    other = a_ledger(ledger.store, experiment="base")
    term = a_begun_run(other, "base-aaaaa")
    a_checkpoint(other, stage, step=10, term=term, run="base-aaaaa", verified="tensors")
    a_begun_run(ledger, source="base@step-10-term-1")
    a_checkpoint(other, stage, step=20, term=term, run="base-aaaaa", verified="tensors")

    assert selected(ledger, "gpt-aaaaa", source="base@latest").checkpoint == "base@step-10-term-1"


@pytest.mark.parametrize("experiment", ["nothing-there", "gpt"])
def test_an_experiment_without_checkpoints_cannot_be_borrowed_from(ledger: Ledger, experiment: str) -> None:
    with pytest.raises(BadInput, match=f"{experiment}/v1 has no checkpoints"):
        selected(ledger, "gpt-aaaaa", source=f"{experiment}@latest")


def test_a_retired_checkpoint_is_never_selected(ledger: Ledger, stage: Path) -> None:
    three_checkpoints(ledger, stage)
    retired = (Retired(checkpoint="step-10-term-1", reason="old"),)
    ledger.append(lambda state: Retire(run="gpt-aaaaa", checkpoints=retired, survivors=()))

    with pytest.raises(BadInput, match="step-10-term-1 is retired: old"):
        selected(ledger, "gpt-bbbbb", source="step:10")
