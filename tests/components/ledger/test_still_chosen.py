"""A START begins at its source as long as a selection in the state it follows would choose the same."""

from collections.abc import Callable
from dataclasses import dataclass

from hypothesis import example, given, settings
from hypothesis import strategies as st

from components.contracts.gang import ResumeRule
from components.errors import ArgosyError
from components.ledger.ledger import Ledger, SourceLost, begin, claim, mark_verified, quarantine
from components.ledger.records import Retire, Retired
from components.ledger.select import Source, select_source, still_chosen
from components.ledger.state import CheckpointEntry, LedgerState
from tests.components.ledger.building import an_owner
from tests.components.ledger.memory import MemoryStore
from tests.components.ledger.past import GOOD, save

RUNS = ("gpt-aaaaa", "gpt-bbbbb", "gpt-ccccc")
WANTED = ("latest", "latest", "fresh", "step:10", "step:20", "step-10-term-1", "step-20-term-2", "base@latest")
Actions = list[tuple[str, int]]
KINDS = ("start", "start", "save", "save", "save", "verify", "verify", "quarantine", "retire", "damage")


@dataclass(frozen=True)
class Description:
    """What one run asks for, from its first START to its last."""

    resume: ResumeRule
    data_version: str


class World:
    """A ledger beside one of experiment `base`, which has one good checkpoint, and three runs that take turns."""

    def __init__(self, descriptions: tuple[Description, ...]) -> None:
        self.store = MemoryStore()
        self.ledger = self._ledger("gpt")
        self._descriptions = dict(zip(RUNS, descriptions, strict=True))
        base = self._ledger("base")
        self._begin(base, "base-aaaaa", None)
        save(base, 1, 10, GOOD, run="base-aaaaa", data_version="d-1")
        mark_verified(base, checkpoint="step-10-term-1", level="tensors")

    def happen(self, kind: str, number: int) -> None:
        """One action of many; what the protocol refuses does not happen."""
        state = self.ledger.state()
        entries = list(state.checkpoints.values())
        try:
            if kind == "start":
                run = RUNS[number % len(RUNS)]
                self.begin(run, self.selected(run))
            elif kind == "save" and state.begins:
                run = state.begins[-1].run
                data_version = self._descriptions[run].data_version
                save(self.ledger, state.term, 10 + number % 3 * 10, GOOD, run=run, data_version=data_version)
            elif entries:
                self._judge(kind, entries[number % len(entries)])
        except ArgosyError:
            pass

    def selected(self, run: str) -> Source:
        asked = self._descriptions[run]
        return select_source(
            self.ledger, self.store, resume=asked.resume, data_version=asked.data_version, run=run
        )  # fmt: skip

    def begin(self, run: str, source: Source) -> None:
        asked = self._descriptions[run]
        self._begin(
            self.ledger, run, source.checkpoint,
            still_chosen(source, resume=asked.resume, data_version=asked.data_version, run=run),
        )  # fmt: skip

    def mend(self) -> None:
        """All bytes are as committed."""
        for entry in self.ledger.state().checkpoints.values():
            self.store.objects[f"{entry.folder}/model.safetensors"] = GOOD

    def _judge(self, kind: str, entry: CheckpointEntry) -> None:
        if kind == "verify":
            mark_verified(self.ledger, checkpoint=entry.checkpoint, level="tensors")
        elif kind == "quarantine":
            quarantine(self.ledger, checkpoint=entry.checkpoint, reason="poisoned")
        elif kind == "retire":
            gone = (Retired(checkpoint=entry.checkpoint, reason="old"),)
            self.ledger.append(lambda state: Retire(run=entry.run, checkpoints=gone, survivors=()))
        elif kind == "damage":
            self.store.objects[f"{entry.folder}/model.safetensors"] = GOOD[:-1]

    def _ledger(self, experiment: str) -> Ledger:
        return Ledger(self.store, experiment, "v1", pause=lambda seconds: None, num_readers=1)

    def _begin(
        self, ledger: Ledger, run: str, source: str | None, is_still_chosen: Callable[[LedgerState], bool] | None = None
    ) -> None:  # fmt: skip
        claim(ledger, run=run, owner=an_owner(), is_gone=lambda owner: True)
        begin(
            ledger, run=run, generation=0, attempt=0, reason="start", charged=False, source=source,
            is_still_chosen=is_still_chosen,
        )  # fmt: skip


DESCRIPTIONS = st.builds(
    Description,
    st.builds(ResumeRule, source=st.sampled_from(WANTED), on_new_data=st.sampled_from(["refuse", "continue"])),
    st.sampled_from(["d-1", "d-1", "d-2"]),
)
ACTIONS = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 11)), min_size=2, max_size=16)
LATEST, FROM_STEP_10 = (Description(ResumeRule(source=at, on_new_data="refuse"), "d-1") for at in ("latest", "step:10"))
COLLECTED = [("start", 0), ("save", 0), ("start", 1), ("save", 2), ("retire", 0)]
"""Of where the second run began: it goes on from what it has committed itself."""


@settings(max_examples=300, deadline=None, derandomize=True)
@example((LATEST, FROM_STEP_10, LATEST), "gpt-bbbbb", COLLECTED, [])
@example((LATEST, FROM_STEP_10, LATEST), "gpt-bbbbb", COLLECTED[:-1], COLLECTED[-1:])
@given(st.tuples(DESCRIPTIONS, DESCRIPTIONS, DESCRIPTIONS), st.sampled_from(RUNS), ACTIONS, ACTIONS)
def test_a_start_begins_where_it_was_to_if_a_selection_from_good_bytes_would_choose_that_again(
    descriptions: tuple[Description, ...], run: str, before: Actions, since: Actions
) -> None:
    world = World(descriptions)
    for kind, number in before:
        world.happen(kind, number)
    try:
        source = world.selected(run)
    except ArgosyError:
        return  # there is no START
    for kind, number in since:
        world.happen(kind, number)
    world.mend()
    try:
        would_choose_it = world.selected(run).checkpoint == source.checkpoint
    except ArgosyError:
        would_choose_it = False

    try:
        world.begin(run, source)
    except SourceLost:
        assert not would_choose_it
    else:
        assert would_choose_it
