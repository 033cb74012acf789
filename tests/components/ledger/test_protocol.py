"""Claims, terms and verdicts: one running run, one committing term, final verdicts, every action twice."""

from pathlib import Path

import pytest

from components.contracts.gang import ResumeRule
from components.errors import BadInput
from components.ledger.ledger import (
    ClaimLost,
    Fenced,
    Ledger,
    LedgerDamaged,
    RunActive,
    SourceLost,
    begin,
    claim,
    commit,
    mark_verified,
    pin,
    quarantine,
    release,
    restarts_used,
    unpin,
)
from components.ledger.publish import receipts_present, write_manifest
from components.ledger.records import Retire, Retired
from components.ledger.select import Source, still_chosen
from components.storage.local import LocalStore
from tests.components.ledger.building import (
    DATA_VERSION,
    a_begun_run,
    a_checkpoint,
    a_ledger,
    a_stage,
    an_owner,
    selected,
)

ALIVE, GONE = (lambda owner: False), (lambda owner: True)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return a_ledger(LocalStore(tmp_path / "storage"))


@pytest.fixture
def stage(tmp_path: Path) -> Path:
    return a_stage(tmp_path / "stage")


def retire(ledger: Ledger, *checkpoints: str) -> None:
    retired = tuple(Retired(checkpoint=checkpoint, reason="old") for checkpoint in checkpoints)
    ledger.append(lambda state: Retire(run="gpt-aaaaa", checkpoints=retired, survivors=()))


def test_a_second_run_is_refused_and_told_who_runs(ledger: Ledger) -> None:
    claim(ledger, run="gpt-aaaaa", owner=an_owner(pid=77, host="node-1"), is_gone=ALIVE)

    with pytest.raises(RunActive, match=r"RunActive: run gpt-aaaaa \(pid 77 on node-1\) has been running gpt/v1 since"):
        claim(ledger, run="gpt-bbbbb", owner=an_owner(pid=78), is_gone=ALIVE)


def test_the_same_run_claims_again_from_a_later_launcher_and_keeps_its_since(ledger: Ledger) -> None:
    claim(ledger, run="gpt-aaaaa", owner=an_owner(pid=77), is_gone=ALIVE)
    first = ledger.state().claim
    claim(ledger, run="gpt-aaaaa", owner=an_owner(pid=78), is_gone=ALIVE)
    second = ledger.state().claim

    assert first is not None
    assert second is not None
    assert (second.owner.pid, second.since) == (78, first.since)


def test_a_claim_whose_owner_is_gone_is_taken_over(ledger: Ledger) -> None:
    claim(ledger, run="gpt-aaaaa", owner=an_owner(), is_gone=ALIVE)
    claim(ledger, run="gpt-bbbbb", owner=an_owner(), is_gone=GONE)

    held = ledger.state().claim
    assert held is not None
    assert held.run == "gpt-bbbbb"
    with pytest.raises(ClaimLost, match="is claimed by run gpt-bbbbb, not by gpt-aaaaa"):
        begin(ledger, run="gpt-aaaaa", generation=0, attempt=0, reason="start", charged=False, source=None)


def test_a_released_claim_is_free_and_a_stranger_cannot_release_it(ledger: Ledger) -> None:
    claim(ledger, run="gpt-aaaaa", owner=an_owner(), is_gone=ALIVE)
    release(ledger, run="gpt-bbbbb", outcome="Failed")
    assert ledger.state().claim is not None

    release(ledger, run="gpt-aaaaa", outcome="Succeeded")
    release(ledger, run="gpt-aaaaa", outcome="Succeeded")

    assert ledger.state().claim is None
    assert ledger.state().seq == 2


def test_each_start_has_a_term_of_its_own_and_charged_ones_are_counted(ledger: Ledger) -> None:
    claim(ledger, run="gpt-aaaaa", owner=an_owner(), is_gone=ALIVE)
    terms = [
        begin(ledger, run="gpt-aaaaa", generation=0, attempt=attempt, reason="r", charged=charged, source=None)
        for attempt, charged in enumerate([False, True, False, True])
    ]

    assert terms == [1, 2, 3, 4]
    assert restarts_used(ledger.state(), "gpt-aaaaa") == 2
    assert restarts_used(ledger.state(), "gpt-bbbbb") == 0


def test_a_zombie_writer_is_fenced_at_commit(ledger: Ledger, stage: Path) -> None:
    zombie_term = a_begun_run(ledger)
    a_begun_run(ledger)

    with pytest.raises(Fenced, match="step-10-term-1 belongs to term 1, but term 2 has begun"):
        a_checkpoint(ledger, stage, step=10, term=zombie_term)
    assert ledger.state().checkpoints == {}


def test_a_zombie_generation_cannot_begin_over_its_replacement(ledger: Ledger) -> None:
    a_begun_run(ledger, generation=0)
    a_begun_run(ledger, generation=1)

    with pytest.raises(Fenced, match="generation 1 of gpt-aaaaa has begun, this is generation 0"):
        a_begun_run(ledger, generation=0)


def test_a_commit_repeated_changes_nothing(ledger: Ledger, stage: Path) -> None:
    term = a_begun_run(ledger)
    a_checkpoint(ledger, stage, step=10, term=term, metrics={"loss": 2.5})
    before = ledger.state()
    a_checkpoint(ledger, stage, step=10, term=term, metrics={"loss": 2.5})

    assert ledger.state() is before
    entry = before.checkpoints["step-10-term-1"]
    assert (entry.status, entry.step, entry.num_files, entry.metrics) == ("committed", 10, 2, {"loss": 2.5})
    assert entry.folder == "checkpoints/gpt/v1/d-0123456789abcdef/step-000000000010/term-000001"


def test_a_commit_repeated_after_a_newer_term_is_still_the_same_commit(ledger: Ledger, stage: Path) -> None:
    term = a_begun_run(ledger)
    manifest = a_checkpoint(ledger, stage, step=10, term=term)
    a_begun_run(ledger)

    commit(ledger, manifest=manifest, manifest_sha256=ledger.state().checkpoints[manifest.checkpoint].manifest_sha256)


def test_a_higher_level_is_recorded_and_a_lower_one_is_no_news(ledger: Ledger, stage: Path) -> None:
    checkpoint = a_checkpoint(ledger, stage, step=10, term=a_begun_run(ledger)).checkpoint
    levels = [
        mark_verified(ledger, checkpoint=checkpoint, level=level).level for level in ("digests", "tensors", "files")
    ]

    assert levels == ["digests", "tensors", "tensors"]
    assert ledger.state().seq == 5


def test_quarantine_is_final(ledger: Ledger, stage: Path) -> None:
    checkpoint = a_checkpoint(
        ledger, stage, step=10, term=a_begun_run(ledger), verified="tensors", quarantined="a flipped bit"
    ).checkpoint

    after = mark_verified(ledger, checkpoint=checkpoint, level="tensors")
    again = quarantine(ledger, checkpoint=checkpoint, reason="something else")

    assert (after.status, again.reason) == ("quarantined", "a flipped bit")


def test_retired_is_final(ledger: Ledger, stage: Path) -> None:
    term = a_begun_run(ledger)
    old = a_checkpoint(ledger, stage, step=10, term=term, verified="tensors").checkpoint
    a_checkpoint(ledger, stage, step=20, term=term, verified="tensors")
    retire(ledger, old)

    assert mark_verified(ledger, checkpoint=old, level="tensors").status == "retired"
    assert quarantine(ledger, checkpoint=old, reason="missing").status == "retired"
    with pytest.raises(BadInput, match="CheckpointRetired: step-10-term-1 is retired: old"):
        pin(ledger, checkpoint=old, by="me")


def test_the_log_itself_refuses_to_lose_the_last_verified_checkpoint(ledger: Ledger, stage: Path) -> None:
    term = a_begun_run(ledger)
    a_checkpoint(ledger, stage, step=10, term=term, verified="tensors")
    a_checkpoint(ledger, stage, step=20, term=term)

    with pytest.raises(LedgerDamaged, match="retires the last verified checkpoint"):
        retire(ledger, "step-10-term-1")


def test_pins_belong_to_those_who_set_them(ledger: Ledger, stage: Path) -> None:
    checkpoint = a_checkpoint(ledger, stage, step=10, term=a_begun_run(ledger)).checkpoint
    for by in ("ann", "bob", "ann"):
        pin(ledger, checkpoint=checkpoint, by=by)
    unpin(ledger, checkpoint=checkpoint, by="ann")
    unpin(ledger, checkpoint=checkpoint, by="carl")

    assert ledger.state().checkpoints[checkpoint].pins == {"bob"}


@pytest.mark.parametrize("act", [mark_verified, quarantine, pin, unpin])
def test_an_unknown_checkpoint_is_bad_input(ledger: Ledger, act: object) -> None:
    arguments = {mark_verified: {"level": "files"}, quarantine: {"reason": "x"}}.get(act, {"by": "me"})

    with pytest.raises(BadInput, match="gpt/v1 has no committed checkpoint 'step-1-term-1'"):
        act(ledger, checkpoint="step-1-term-1", **arguments)  # type: ignore[operator]


def test_a_source_retired_since_its_selection_is_noticed_at_begin(ledger: Ledger, stage: Path) -> None:
    term = a_begun_run(ledger)
    a_checkpoint(ledger, stage, step=10, term=term, verified="tensors")
    a_checkpoint(ledger, stage, step=20, term=term, verified="tensors")
    retire(ledger, "step-10-term-1")

    with pytest.raises(SourceLost, match="step-10-term-1 became retired; select again"):
        a_begun_run(ledger, source="step-10-term-1")


def begun_after(ledger: Ledger, source: Source, *, wanted: str = "latest", run: str = "gpt-aaaaa") -> int:
    rule = ResumeRule.model_validate({"source": wanted, "on_new_data": "refuse"})
    return begin(
        ledger, run=run, generation=1, attempt=0, reason="start", charged=False, source=source.checkpoint,
        is_still_chosen=still_chosen(source, resume=rule, data_version=DATA_VERSION, run=run),
    )  # fmt: skip


def test_a_fresh_start_that_an_older_term_overtakes_with_a_commit_is_noticed_at_begin(
    ledger: Ledger, stage: Path
) -> None:
    term = a_begun_run(ledger)
    source = selected(ledger, "gpt-aaaaa")
    a_checkpoint(ledger, stage, step=10, term=term)

    with pytest.raises(SourceLost, match="a fresh start is not what would be chosen any more; select again"):
        begun_after(ledger, source)
    assert ledger.state().term == 1
    assert begun_after(ledger, selected(ledger, "gpt-aaaaa")) == 2
    with pytest.raises(Fenced):
        a_checkpoint(ledger, stage, step=20, term=term)


def test_a_source_that_an_older_term_overtakes_is_noticed_at_begin_once_the_new_one_is_preferred(
    ledger: Ledger, stage: Path
) -> None:
    term = a_begun_run(ledger)
    a_checkpoint(ledger, stage, step=10, term=term, verified="tensors")
    source = selected(ledger, "gpt-aaaaa")
    a_checkpoint(ledger, stage, step=20, term=term, verified="tensors")

    with pytest.raises(SourceLost, match="step-10-term-1 is not what would be chosen any more"):
        begun_after(ledger, source)

    source = selected(ledger, "gpt-aaaaa")
    a_checkpoint(ledger, stage, step=30, term=term)  # not verified: a new choice would be the same
    assert begun_after(ledger, source) == 2


@pytest.mark.parametrize("wanted", ["step:10", "step-10-term-1"])
def test_an_explicit_source_stays_chosen_whatever_is_committed_beside_it(
    ledger: Ledger, stage: Path, wanted: str
) -> None:
    term = a_begun_run(ledger)
    a_checkpoint(ledger, stage, step=10, term=term, verified="tensors")
    a_begun_run(ledger, "gpt-bbbbb")
    source = selected(ledger, "gpt-ccccc", source=wanted)
    a_checkpoint(ledger, stage, step=20, term=2, run="gpt-bbbbb", verified="tensors")
    claim(ledger, run="gpt-ccccc", owner=an_owner(), is_gone=GONE)

    assert begun_after(ledger, source, wanted=wanted, run="gpt-ccccc") == 3


def test_a_borrowed_source_stays_chosen_until_the_run_has_verified_one_of_its_own(ledger: Ledger, stage: Path) -> None:
    other = a_ledger(ledger.store, experiment="base")
    a_checkpoint(other, stage, step=10, term=a_begun_run(other, "base-aaaaa"), run="base-aaaaa", verified="tensors")
    claim(ledger, run="gpt-aaaaa", owner=an_owner(), is_gone=GONE)
    assert begun_after(ledger, selected(ledger, "gpt-aaaaa", source="base@latest"), wanted="base@latest") == 1
    source = selected(ledger, "gpt-aaaaa", source="base@latest")
    a_checkpoint(ledger, stage, step=20, term=1)
    assert begun_after(ledger, source, wanted="base@latest") == 2
    a_checkpoint(ledger, stage, step=20, term=2, verified="tensors")
    with pytest.raises(SourceLost, match="base@step-10-term-1 is not what would be chosen any more"):
        begun_after(ledger, source, wanted="base@latest")


def test_a_start_that_shall_be_fresh_does_not_begin_beside_a_checkpoint(ledger: Ledger, stage: Path) -> None:
    term = a_begun_run(ledger)
    source = selected(ledger, "gpt-bbbbb", source="fresh")
    a_checkpoint(ledger, stage, step=10, term=term, quarantined="torn")
    claim(ledger, run="gpt-bbbbb", owner=an_owner(), is_gone=GONE)

    with pytest.raises(SourceLost, match="a fresh start is not"):
        begun_after(ledger, source, wanted="fresh", run="gpt-bbbbb")


def test_a_checkpoint_borrowed_from_another_experiment_is_pinned_until_release(ledger: Ledger, stage: Path) -> None:
    other = a_ledger(ledger.store, experiment="base")
    a_checkpoint(other, stage, step=10, term=a_begun_run(other, "base-aaaaa"), run="base-aaaaa", verified="tensors")

    a_begun_run(ledger, source="base@step-10-term-1")
    assert other.state().checkpoints["step-10-term-1"].pins == {"run gpt-aaaaa of gpt"}
    release(ledger, run="gpt-aaaaa", outcome="Succeeded")
    assert not other.state().checkpoints["step-10-term-1"].pinned


def test_a_manifest_needs_receipts_of_its_own_term(ledger: Ledger, stage: Path) -> None:
    a_checkpoint(ledger, stage, step=10, term=a_begun_run(ledger))
    folder = ledger.state().checkpoints["step-10-term-1"].folder

    with pytest.raises(BadInput, match="node 0's receipt is of term 1, step 10"):
        write_manifest(
            ledger.store, receipts=receipts_present(ledger.store, folder=folder, node_ranks=[0]), experiment="gpt",
            model_version="v1", data_version="d-1", run="gpt-aaaaa", term=2, step=10, world_size=1, parent=None,
            metrics={},
        )  # fmt: skip
