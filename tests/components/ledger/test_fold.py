"""The fold: a pure function of the records, the same in one go or record by record."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.ledger.records import (
    Begin,
    Change,
    Claim,
    Commit,
    Deleted,
    LedgerDamaged,
    Pin,
    Quarantine,
    Record,
    Release,
    Retire,
    Retired,
    Unpin,
    Verified,
)
from components.ledger.state import LedgerState, fold
from tests.components.ledger.building import an_owner

RUNS, NAMES = st.sampled_from(["gpt-aaaaa", "gpt-bbbbb"]), st.sampled_from(["c1", "c2", "c3", "c4"])


def a_commit(checkpoint: str, term: int) -> Commit:
    return Commit(
        checkpoint=checkpoint, term=term, step=int(checkpoint[1:]) * 10, run="gpt-aaaaa", data_version="d-1",
        folder=f"f/{checkpoint}", manifest_sha256="0" * 64, size_bytes=1, num_files=1, world_size=1,
    )  # fmt: skip


CHANGES: st.SearchStrategy[Change] = st.one_of(
    st.builds(Claim, run=RUNS, owner=st.just(an_owner()), taken_from=st.none() | RUNS),
    st.builds(Release, run=RUNS, outcome=st.just("Succeeded")),
    st.builds(
        Begin, term=st.integers(1, 4), run=RUNS, generation=st.just(0), attempt=st.just(0), reason=st.just("r"),
        charged=st.booleans(), source=st.none(),
    ),
    st.builds(a_commit, NAMES, st.integers(1, 3)),
    st.builds(Verified, checkpoint=NAMES, level=st.sampled_from(["files", "digests", "tensors"])),
    st.builds(Quarantine, checkpoint=NAMES, reason=st.just("a flipped bit")),
    st.builds(Pin, checkpoint=NAMES, by=RUNS),
    st.builds(Unpin, checkpoint=NAMES, by=RUNS),
    st.builds(
        lambda names: Retire(
            run="gpt-aaaaa", checkpoints=tuple(Retired(checkpoint=name, reason="old") for name in names), survivors=()
        ),
        st.lists(NAMES, min_size=1, max_size=2),
    ),
    st.builds(lambda name: Deleted(checkpoints=(name,)), NAMES),
)  # fmt: skip


def accepted(changes: list[Change]) -> list[Record]:
    """The records of those changes that the log would accept, one after another."""
    records: list[Record] = []
    state = LedgerState()
    for change in changes:
        record = Record(
            seq=len(records) + 1, experiment="gpt", model_version="v1", nonce="n", at="2026-11-29T00:00:00.000Z",
            change=change,
        )  # fmt: skip
        try:
            state = fold(state, [record])
        except LedgerDamaged:
            continue
        records.append(record)
    return records


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.lists(CHANGES, max_size=40), st.integers(0, 40))
def test_the_state_does_not_depend_on_how_the_log_was_read(changes: list[Change], cut: int) -> None:
    records = accepted(changes)
    whole = fold(LedgerState(), records)

    assert fold(fold(LedgerState(), records[:cut]), records[cut:]) == whole
    one_by_one = LedgerState()
    for record in records:
        one_by_one = fold(one_by_one, [record])
    assert one_by_one == whole
    assert fold(LedgerState(), [Record.from_bytes(item.to_bytes(), where="") for item in records]) == whole


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.lists(CHANGES, max_size=40))
def test_what_is_final_stays_and_the_last_verified_never_goes(changes: list[Change]) -> None:
    state = LedgerState()
    for record in accepted(changes):
        before, state = state, fold(state, [record])
        for name, entry in before.checkpoints.items():
            now = state.checkpoints[name].status
            assert entry.status != "retired" or now == "retired"
            assert entry.status != "quarantined" or now in ("quarantined", "retired")
        if before.newest_first("verified") and not isinstance(record.change, Quarantine):
            assert state.newest_first("verified")
        assert state.term >= before.term
        assert before.seq == record.seq - 1  # folding on did not change the older state


def test_a_record_out_of_order_is_refused() -> None:
    records = accepted([Begin(term=1, run="gpt-aaaaa", generation=0, attempt=0, reason="r", charged=False)])

    with pytest.raises(LedgerDamaged, match=r"record 1 \(begin\) of gpt/v1 follows record 4: one is missing"):
        fold(LedgerState(seq=4), records)
