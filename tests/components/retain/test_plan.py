"""What is kept and what goes, and why: tables for the rules, properties for what no rule may break."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from components.contracts.retention import KeepBest, RetentionPolicy
from components.ledger.records import (
    Begin,
    Change,
    Commit,
    LedgerDamaged,
    Pin,
    Quarantine,
    Record,
    Retire,
    Retired,
    Verified,
)
from components.ledger.state import LedgerState, fold
from components.retain.plan import counted_on, plan_retention, to_retire
from tests.components.ledger.building import NOW


def a_state(changes: Sequence[Change]) -> LedgerState:
    """The fold of `changes`; those that the log would refuse are left out."""
    state = LedgerState()
    for change in changes:
        record = Record(
            seq=state.seq + 1, experiment="gpt", model_version="v1", nonce="n", at="2026-11-29T00:00:00.000Z",
            change=change,
        )  # fmt: skip
        try:
            state = fold(state, [record])
        except LedgerDamaged:
            continue
    return state


def a_term(term: int, *, run: str = "gpt-aaaaa", source: str | None = None) -> Begin:
    return Begin(term=term, run=run, generation=0, attempt=0, reason="r", charged=False, source=source)


def committed(
    step: int, *, term: int = 1, run: str = "gpt-aaaaa", metrics: Mapping[str, float] | None = None
) -> Commit:
    return Commit(
        checkpoint=f"{step}", term=term, step=step, run=run, data_version="d-1", folder=f"f/{step}",
        manifest_sha256="0" * 64, size_bytes=1, num_files=1, world_size=1, metrics=dict(metrics or {}),
    )  # fmt: skip


def verified(step: int, **changes: object) -> list[Change]:
    return [committed(step, **changes), Verified(checkpoint=f"{step}", level="tensors")]  # type: ignore[arg-type]


def quarantined(step: int) -> list[Change]:
    return [committed(step), Quarantine(checkpoint=f"{step}", reason="a flipped bit")]


def decided(state: LedgerState, **policy: object) -> dict[str, str]:
    plan = plan_retention(state, RetentionPolicy.model_validate({"keep_last": 2, **policy}), NOW)
    return {item.checkpoint: f"{item.action}: {item.reason}" for item in plan.decisions}


def kept(state: LedgerState, **policy: object) -> list[str]:
    return list(plan_retention(state, RetentionPolicy.model_validate({"keep_last": 2, **policy}), NOW).kept)


def test_every_checkpoint_gets_a_decision_with_a_reason_newest_first() -> None:
    state = a_state([a_term(1), *verified(10), *verified(20), *verified(30), committed(40)])

    assert list(decided(state).items()) == [
        ("40", "keep: committed, not yet verified"),
        ("30", "keep: keep_last: number 1 of the newest 2 verified"),
        ("20", "keep: keep_last: number 2 of the newest 2 verified"),
        ("10", "delete: verified, but older than the newest 2 verified and kept by no rule"),
    ]


def test_as_long_as_there_are_not_more_than_keep_last_nothing_goes() -> None:
    assert kept(a_state([a_term(1), committed(5), *verified(10), *verified(20)])) == ["20", "10", "5"]


def test_unverified_ones_never_push_verified_ones_out() -> None:
    state = a_state([a_term(1), *verified(10), *verified(20), *[committed(step) for step in (30, 40, 50, 60)]])

    assert kept(state) == ["60", "50", "40", "30", "20", "10"]


def test_an_unverified_one_goes_when_it_is_older_than_the_newest_verified() -> None:
    state = a_state([a_term(1), committed(5), *verified(10), committed(15), *verified(20), *verified(30)])

    assert decided(state)["5"] == "delete: never verified, and older than the newest 2 verified"
    assert decided(state)["15"] == "delete: never verified, and older than the newest 2 verified"


def test_keep_every_steps() -> None:
    state = a_state([a_term(1), *verified(100), *verified(150), *verified(200), *verified(250), *verified(300)])

    assert decided(state, keep_every_steps=100)["100"] == "keep: keep_every_steps: step 100 is a multiple of 100"
    assert kept(state, keep_every_steps=100) == ["300", "250", "200", "100"]


@pytest.mark.parametrize(
    ("rule", "best"),
    [
        (KeepBest(metric="loss"), ["10"]),
        (KeepBest(metric="loss", count=2), ["20", "10"]),  # of equals the newer
        (KeepBest(metric="loss", mode="max"), ["30"]),
        (KeepBest(metric="accuracy"), []),
    ],
)
def test_keep_best(rule: KeepBest, best: list[str]) -> None:
    losses = {10: 1.0, 15: 2.0, 20: 2.0, 30: 3.0, 40: 2.5, 50: 2.5}
    changes = [change for step, loss in losses.items() for change in verified(step, metrics={"loss": loss})]

    assert kept(a_state([a_term(1), *changes]), keep_best=rule) == ["50", "40", *best]


def test_a_pinned_one_stays_whatever_it_is() -> None:
    pins = [Pin(checkpoint=checkpoint, by="ann") for checkpoint in ("1", "5", "10")]
    state = a_state([a_term(1), *quarantined(1), *quarantined(2), committed(5), *verified(10), *verified(20),
                     *verified(30), *verified(40), *pins])  # fmt: skip

    assert kept(state) == ["40", "30", "10", "5", "1"]
    assert decided(state)["5"] == "keep: pinned by ann"


def test_quarantined_ones_never_count_and_the_newest_is_left_for_inspection() -> None:
    state = a_state([a_term(1), *verified(10), *verified(20), *quarantined(30), *quarantined(40)])

    assert decided(state) == {
        "40": "keep: newest quarantined, for inspection: a flipped bit",
        "30": "delete: quarantined: a flipped bit",
        "20": "keep: keep_last: number 1 of the newest 2 verified",
        "10": "keep: keep_last: number 2 of the newest 2 verified",
    }


def test_a_quarantined_one_goes_once_enough_newer_ones_are_verified() -> None:
    state = a_state([a_term(1), *verified(5), *quarantined(10), *verified(20), *verified(30)])

    assert decided(state)["10"] == "delete: quarantined: a flipped bit"


def test_the_resume_source_stays_until_its_term_has_a_verified_one() -> None:
    before = [a_term(1), *verified(10), *verified(20), *verified(30), a_term(2, run="gpt-bbbbb", source="10")]

    state = a_state(before)
    assert decided(state)["10"] == "keep: in use: term 2 resumed from it and has no verified one of its own"
    state = a_state([*before, *verified(15, term=2, run="gpt-bbbbb")])
    assert decided(state)["10"].startswith("delete")


def test_a_restarted_run_keeps_its_first_source_until_the_run_has_a_verified_one() -> None:
    state = a_state([a_term(1), *verified(10), *verified(20), *verified(30), a_term(2, run="b", source="10"),
                     committed(40, term=2, run="b"), a_term(3, run="b", source="40")])  # fmt: skip

    assert decided(state)["10"] == "keep: in use: run b resumed from it and has no verified one of its own"
    assert decided(state)["40"].startswith("keep: in use: term 3")


def test_after_a_return_to_an_older_step_the_new_branch_is_kept_too() -> None:
    changes = [a_term(1), *verified(10), *verified(20), *verified(30), *verified(40), a_term(2, run="b", source="10")]
    branch = [change for step in (11, 12, 13) for change in verified(step, term=2, run="b")]

    state = a_state([*changes, *branch, committed(14, term=2, run="b")])

    assert kept(state) == ["40", "30", "14", "13", "12"]
    assert decided(state)["13"] == "keep: keep_last: among the newest verified of the running branch"


def test_keep_for_counts_from_the_recorded_time() -> None:
    state = a_state([a_term(1), *verified(10), *verified(20), *verified(30)])  # all recorded at NOW

    for elapsed, is_kept in ((0, True), (3599, True), (3600, False), (-86400, True)):
        plan = plan_retention(state, RetentionPolicy(keep_last=2, keep_for=3600.0), NOW + timedelta(seconds=elapsed))
        assert ("10" in plan.kept) == is_kept, elapsed
    assert decided(state, keep_for=3600.0)["10"] == "keep: keep_for: committed 2026-11-29T00:00:00.000Z, kept for 1h"


def test_a_recorded_time_that_cannot_be_read_keeps() -> None:
    state = a_state([a_term(1), *verified(10), *verified(20), *verified(30)])
    entries = {name: replace(entry, committed_at="yesterday") for name, entry in state.checkpoints.items()}

    reason = decided(replace(state, checkpoints=entries), keep_for=1.0)["10"]
    assert reason == "keep: keep_for: its recorded time 'yesterday' cannot be read"


def test_what_is_counted_on_is_a_handful_however_much_is_kept() -> None:
    changes = [change for step in range(10, 1000, 10) for change in verified(step)]
    state = a_state([a_term(1), *changes, a_term(2, run="b", source="10")])
    policy = RetentionPolicy(keep_last=2, keep_every_steps=10)

    assert len(plan_retention(state, policy, NOW).kept) == 99
    assert [entry.checkpoint for entry in counted_on(state, policy)] == ["990", "980", "10"]


def test_what_was_retired_keeps_the_reason_it_got_then() -> None:
    retire = Retire(run="r", checkpoints=(Retired(checkpoint="10", reason="because"),), survivors=("20",))
    state = a_state([a_term(1), *verified(10), *verified(20), *verified(30), retire])

    plan = plan_retention(state, RetentionPolicy(keep_last=2), NOW)
    assert decided(state)["10"] == "delete: because"
    assert to_retire(state, plan) == []


def test_keep_last_1_is_refused() -> None:
    with pytest.raises(ValidationError, match="greater than or equal to 2"):
        RetentionPolicy(keep_last=1)


STEPS = st.integers(1, 12)
CHANGES = st.one_of(
    st.builds(a_term, st.integers(1, 5), run=st.sampled_from(["a", "b"]), source=st.none() | STEPS.map(str)),
    st.builds(committed, STEPS, term=st.integers(1, 4), run=st.sampled_from(["a", "b"])),
    st.builds(lambda step: Verified(checkpoint=f"{step}", level="tensors"), STEPS),
    st.builds(lambda step: Verified(checkpoint=f"{step}", level="digests"), STEPS),
    st.builds(lambda step: Quarantine(checkpoint=f"{step}", reason="bad"), STEPS),
    st.builds(lambda step: Pin(checkpoint=f"{step}", by="ann"), STEPS),
)
POLICIES = st.builds(
    RetentionPolicy, keep_last=st.integers(2, 4), keep_every_steps=st.none() | st.integers(1, 5),
    keep_best=st.none() | st.just(KeepBest()), keep_for=st.none() | st.just(60.0),
)  # fmt: skip


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(CHANGES, max_size=60).map(lambda changes: [a_term(1), *changes]), POLICIES)
def test_whatever_the_policy_enough_verified_ones_stay_and_a_second_plan_has_nothing_to_do(
    changes: list[Change], policy: RetentionPolicy
) -> None:
    state = a_state(changes)
    plan = plan_retention(state, policy, NOW)
    going = to_retire(state, plan)

    newest = [entry.checkpoint for entry in state.newest_first("verified")[: policy.keep_last]]
    assert set(newest) <= set(plan.kept)
    source = state.begins[-1].source
    used = source is not None and source in state.checkpoints and state.checkpoints[source].is_usable
    if used and not any(entry.term == state.term for entry in state.newest_first("verified")):
        assert source in plan.kept
    assert {item.checkpoint for item in plan.decisions} == set(state.checkpoints)
    if going:
        retired = tuple(Retired(checkpoint=item.checkpoint, reason=item.reason) for item in going)
        record = Record(
            seq=state.seq + 1, experiment="gpt", model_version="v1", nonce="n", at="2026-11-29T00:00:00.000Z",
            change=Retire(run="a", checkpoints=retired, survivors=plan.kept),
        )  # fmt: skip
        after = fold(state, [record])
        assert to_retire(after, plan_retention(after, policy, NOW)) == []
