"""The simulation notices when the protocol is broken: each mutant lacks one thing that the protocol rests on."""

import pytest

from tests.components.ledger.mutation import Edit, apply_edits
from tests.components.ledger.schedules import run_schedules

NUM_SCHEDULES = 4000
LEDGER, LOG, STATE, SELECT = (f"components.ledger.{name}" for name in ("ledger", "log", "state", "select"))
PLAN, POLICIES, APPLY, OBJECTS = (f"components.retain.{name}" for name in ("plan", "policies", "apply", "objects"))

NO_TERM_IN_THE_FOLD = Edit(f"{STATE}:_Folding._committed", "change.term == self._term", "True")
NO_LAST_ONE_IN_THE_FOLD = Edit(f"{STATE}:_Folding._retired", "self._require(not lost", "self._require(True")

MUTANTS = {
    "no fencing": (
        "I4",
        [Edit(f"{LEDGER}:commit", "if manifest.term != state.term:", "if False:"), NO_TERM_IN_THE_FOLD],
    ),
    "no fencing before the log refuses": (
        "our own log was refused",
        [Edit(f"{LEDGER}:commit", "if manifest.term != state.term:", "if False:")],
    ),
    "no compare-and-append": ("I6", [Edit(f"{LOG}:Ledger._write", "self.store.create(", "self.store.replace(")]),
    "a lost answer is taken for a lost record": (
        "I6: generation 1 began twice",
        [Edit(f"{LOG}:Ledger._write", ".record.nonce == record.nonce", ".record.nonce is record")],
    ),
    "a lost answer is taken for a won slot": (
        "our own log was refused: BrokenChain",
        [Edit(f"{LOG}:Ledger._write", ".record.nonce == record.nonce", ".record.seq == record.seq")],
    ),
    "retention counts what is only committed": (
        "I1|I3",
        [
            Edit(f"{PLAN}:_kept", 'if entry.status == "verified"', 'if entry.status in ("verified", "committed")'),
            Edit(f"{PLAN}:counted_on", 'state.newest_first("verified")', 'state.newest_first("verified", "committed")'),
            NO_LAST_ONE_IN_THE_FOLD,
        ],
    ),
    "the survivors are not looked at": ("I1", [Edit(f"{APPLY}:_damaged", "if faults:", "if False:")]),
    "the source is not looked at": ("I2", [Edit(f"{SELECT}:_Stored.fault", "if not faults:", "if True:")]),
    "the source of a running term is not kept": (
        "I5",
        [Edit(f"{POLICIES}:keep_resume_sources", "if not state.begins:", "if True:")],
    ),
    "BEGIN does not look at its source again": (
        "I9: term . begins at step-",
        [
            Edit(f"{LEDGER}:begin", "if entry is not None and not entry.is_usable:", "if False:"),
            Edit(
                f"{SELECT}:still_chosen",
                "return would_be",
                "return lambda state: would_be(state)"
                " or (not source.is_fresh and not state.checkpoints[source.checkpoint].is_usable)",
            ),
        ],
    ),
    "BEGIN does not ask whether a better source has come": (
        "I9",
        [Edit(f"{SELECT}:still_chosen", "return would_be", "return lambda state: True")],
    ),
    "retired is not final": (
        "I7",
        [
            Edit(f"{LEDGER}:mark_verified", "if entry.is_usable and is_news", "if is_news"),
            Edit(f"{STATE}:_Folding._verified", "self._require(entry.is_usable", "self._require(True"),
        ],
    ),
    "what is running is taken for an orphan": (
        "I7",
        [Edit(f"{OBJECTS}:doomed_objects", "term < state.term", "term <= state.term")],
    ),
    "objects go before they are retired": (
        "I7",
        [Edit(f"{OBJECTS}:doomed_objects", 'if entry.status == "retired"}', 'if entry.status != "verified"}')],
    ),
    "a poisoned save is verified": (
        "NaN was verified",
        [Edit("components.verify.run:verify_entry", "if found.faults:", "if False:")],
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_the_simulation_notices(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected, edits = MUTANTS[name]
    apply_edits(monkeypatch, *edits)

    with pytest.raises(AssertionError, match=expected):
        run_schedules(range(NUM_SCHEDULES))


def test_the_simulation_notices_that_one_copy_is_not_enough() -> None:
    with pytest.raises(AssertionError, match="I1"):
        run_schedules(range(NUM_SCHEDULES), keep_last=1)
