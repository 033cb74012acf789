"""Chooses what a START resumes from: by rule, checked byte by byte now, falling back past damaged ones.

A run's first START follows the description (`latest`, `step:300`, a checkpoint id, `<experiment>@latest`, `fresh`).
A restart prefers what this run itself has verified, so that it never jumps onto another branch; before that it goes
back to where an explicit description made the run begin.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Protocol

from components.contracts.gang import ResumeRule
from components.contracts.names import parse_checkpoint_id
from components.errors import BadInput, Problem, VerificationFailed
from components.integrity.verify import verify_checkpoint
from components.ledger.ledger import quarantine
from components.ledger.log import Ledger
from components.ledger.state import CheckpointEntry, CheckpointStatus, LedgerState
from components.storage.base import ObjectStore

_NUM_LISTED = 20


@dataclass(frozen=True)
class Source:
    """Where a START begins."""

    checkpoint: str | None
    """Checkpoint id, `<experiment>@<checkpoint id>` when it lies in another experiment, or None for a fresh start."""
    step: int
    """0 for a fresh start."""
    folder: str | None
    """Key of the checkpoint's folder."""
    reason: str
    """One sentence: which rule chose it, and what was passed over."""
    entry: CheckpointEntry | None = None

    @property
    def is_fresh(self) -> bool:
        return self.checkpoint is None


def select_source(
    ledger: Ledger, store: ObjectStore, *, resume: ResumeRule, data_version: str, run: str
) -> Source:  # fmt: skip
    """Where the next START of `run` begins. Damaged candidates are quarantined and passed over.

    Raises BadInput when the description asks for something that does not exist, is damaged or is of other data, and
    VerificationFailed when there are checkpoints but no good one.
    """
    return _Search(_Stored(ledger, store), resume, data_version).next_start(run)


def still_chosen(
    source: Source, *, resume: ResumeRule, data_version: str, run: str
) -> Callable[[LedgerState], bool]:  # fmt: skip
    """Tells of a later state whether `select_source` would choose `source` there too, were all bytes as committed.

    Damaged ones it has passed over are quarantined, so they are no candidates. What lies in another experiment is not
    for this ledger to tell, and stays chosen.
    """

    def would_be(state: LedgerState) -> bool:
        try:
            chosen = _Search(_Supposed(state), resume, data_version).next_start(run)
        except _Elsewhere:
            return True
        except (BadInput, VerificationFailed):
            return False
        return chosen.checkpoint == source.checkpoint

    return would_be


class _Ground(Protocol):
    """What a search stands on: the records of a ledger, and whether the bytes they speak of hold."""

    experiment: str
    model_version: str

    def state(self) -> LedgerState:
        """The newest there is."""

    def fault(self, entry: CheckpointEntry) -> str:
        """What became of a checkpoint whose bytes do not hold, and why; empty when they do."""

    def other(self, experiment: str) -> "_Ground":
        """The same for another experiment."""


class _Stored:
    """A ledger and the bytes in the store: both are read when asked for, and what is damaged is quarantined."""

    def __init__(self, ledger: Ledger, store: ObjectStore) -> None:
        self._ledger, self._store = ledger, store
        self.experiment, self.model_version = ledger.experiment, ledger.model_version

    def state(self) -> LedgerState:
        return self._ledger.state()

    def fault(self, entry: CheckpointEntry) -> str:
        faults = verify_checkpoint(self._store, entry.folder, entry.manifest_sha256, "digests")
        if not faults:
            return ""
        why = str(faults[0]) + (f" and {len(faults) - 1} more" if len(faults) > 1 else "")
        after = quarantine(self._ledger, checkpoint=entry.checkpoint, reason=why)
        return f"{after.status}: {why}"

    def other(self, experiment: str) -> "_Stored":
        return _Stored(Ledger(self._store, experiment, self.model_version), self._store)


class _Supposed:
    """One state whose bytes all hold. Nothing is read or written, and no one hears what the search says."""

    experiment = model_version = "supposed"

    def __init__(self, state: LedgerState) -> None:
        self._state = state

    def state(self) -> LedgerState:
        return self._state

    def fault(self, entry: CheckpointEntry) -> str:
        return ""

    def other(self, experiment: str) -> "_Supposed":
        raise _Elsewhere


class _Elsewhere(Exception):
    """The source lies in another experiment, of which nothing is known."""


class _Search:
    """One selection: remembers what was passed over, for the reason."""

    def __init__(self, ground: _Ground, resume: ResumeRule, data_version: str) -> None:
        self._ground, self._resume, self._data_version = ground, resume, data_version
        self._name = f"{ground.experiment}/{ground.model_version}"
        self._passed: list[str] = []

    def next_start(self, run: str) -> Source:
        """The rules. The state is asked for again wherever a look at bytes may have changed it."""
        state = self._ground.state()
        begins = state.begins_of(run)
        if not begins:
            return self._as_described(state)
        own = [entry for entry in state.newest_first() if entry.run == run]
        what = f"the newest good checkpoint of {run}"
        source = self._first_good(own, what, "verified")
        first = begins[0].source
        if source is None and self._resume.source != "latest" and first is not None:
            try:
                return self._at_beginning(self._ground.state(), first)
            except BadInput:
                source = self._first_good(own, what, "committed")
                if source is None:
                    raise
        return source if source is not None else self._latest(self._ground.state())

    def _as_described(self, state: LedgerState) -> Source:
        wanted = self._resume.source
        if wanted == "latest":
            return self._latest(state)
        if wanted == "fresh":
            return self._fresh(state)
        if wanted.endswith("@latest"):
            return self._of_other(wanted.removesuffix("@latest"))
        if wanted.startswith("step:"):
            step = wanted.removeprefix("step:")
            return self._explicit(state, [entry for entry in state.newest_first() if str(entry.step) == step])
        if parse_checkpoint_id(wanted) is not None:
            return self._explicit(state, [entry for entry in state.newest_first() if entry.checkpoint == wanted])
        raise BadInput(
            "UnknownResumePoint", f"resume.from is {wanted!r}",
            "use latest, fresh, step:<n>, a checkpoint id or <experiment>@latest",
        )  # fmt: skip

    def _latest(self, state: LedgerState) -> Source:
        what = f"the newest good checkpoint of {self._ground.experiment}"
        source = self._first_good(state.newest_first(), what, "verified", "committed")
        if source is not None:
            return source
        if not state.checkpoints:
            return Source(None, 0, None, "a fresh start: nothing was ever committed")
        raise VerificationFailed(
            "NothingToResume",
            f"{self._name} has checkpoints, but none can be resumed from" + self._passed_over(),
            "restore one, or choose a new model_version to start fresh",
        )

    def _first_good(self, entries: Iterable[CheckpointEntry], what: str, *statuses: CheckpointStatus) -> Source | None:
        """The first entry of the first status whose bytes hold now; of the next status only when there is none."""
        candidates = list(entries)
        for status in statuses:
            for entry in candidates:
                if entry.status == status and self._holds(entry):
                    return self._source(entry, f"{what}, {_standing(entry)}")
        return None

    def _at_beginning(self, state: LedgerState, first: str) -> Source:
        """Where the run first began; its explicit source still counts while it has no checkpoint of its own."""
        experiment, separator, checkpoint = first.partition("@")
        if separator:
            return self._of_other(experiment, checkpoint)
        return self._explicit(state, [entry for entry in state.newest_first() if entry.checkpoint == first])

    def _fresh(self, state: LedgerState) -> Source:
        if state.checkpoints:
            raise BadInput(
                "NotFresh",
                f"{self._name} has {len(state.checkpoints)} checkpoints",
                "choose a new model_version to start fresh beside them, or resume.from: latest to go on",
            )
        return Source(None, 0, None, "a fresh start, as asked")

    def _of_other(self, experiment: str, checkpoint: str = "") -> Source:
        """The newest good one of another experiment, or the named one; its bytes stay where they are."""
        other = self._ground.other(experiment)
        state = other.state()
        if experiment == self._ground.experiment or not state.checkpoints:
            raise BadInput(
                "UnknownResumePoint", f"{experiment}/{other.model_version} has no checkpoints",
                "name another experiment with the same model_version",
            )  # fmt: skip
        search = _Search(other, self._resume, self._data_version)
        if checkpoint:
            source = search._explicit(state, [state.checkpoints[checkpoint]] if checkpoint in state.checkpoints else [])
        else:
            source = search._latest(state)
        return replace(source, checkpoint=f"{experiment}@{source.checkpoint}")

    def _explicit(self, state: LedgerState, entries: list[CheckpointEntry]) -> Source:
        wanted = self._resume.source
        source = self._first_good(entries, f"asked for as {wanted}", "verified", "committed")
        if source is not None:
            return source
        for entry in entries:
            if not entry.is_usable:
                self._passed.append(f"{entry.checkpoint} is {entry.status}: {entry.reason}")
        available = [entry for entry in self._ground.state().newest_first() if entry.is_usable]
        seen = f"resume.from: {wanted} names no checkpoint of {self._name}"
        if entries:
            seen = f"resume.from: {wanted} cannot be resumed from" + self._passed_over()
        if available:
            fix = "choose one of these"
        elif state.checkpoints:
            fix = "no other is good; restore one, or choose a new model_version to start fresh"
        else:
            fix = "nothing was ever committed; resume.from: latest starts fresh"
        raise BadInput(
            "UnusableResumePoint" if entries else "UnknownResumePoint", seen, fix,
            problems=[Problem(entry.checkpoint, _described(entry)) for entry in available[:_NUM_LISTED]],
        )  # fmt: skip

    def _holds(self, entry: CheckpointEntry) -> bool:
        if entry.data_version != self._data_version and self._resume.on_new_data == "refuse":
            raise BadInput(
                "NewData",
                f"{entry.checkpoint} was trained on {entry.data_version}, this run's data is {self._data_version}",
                "set resume.on_new_data: continue to go on with the new data, or choose a new model_version",
            )
        fault = self._ground.fault(entry)
        if fault:
            self._passed.append(f"{entry.checkpoint} is {fault}")
        return not fault

    def _source(self, entry: CheckpointEntry, reason: str) -> Source:
        if entry.data_version != self._data_version:
            reason += f"; trained on {entry.data_version}, going on with {self._data_version}"
        return Source(entry.checkpoint, entry.step, entry.folder, reason + self._passed_over(), entry)

    def _passed_over(self) -> str:
        return f"; passed over: {'; '.join(self._passed)}" if self._passed else ""


def _standing(entry: CheckpointEntry) -> str:
    return f"verified ({entry.level})" if entry.status == "verified" else "committed, digests hold"


def _described(entry: CheckpointEntry) -> str:
    return f"step {entry.step}, {entry.status}, run {entry.run}, data {entry.data_version}"
