"""What a ledger means: the state is a fold of its records, and of nothing else.

Two observers of the same records have the same state. A record that contradicts the state before it raises
LedgerDamaged; `Ledger.append` folds its own record before writing it, so the log never holds one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal

from components.contracts.checkpoint import Lineage, VerifyLevel
from components.ledger.owner import Owner
from components.ledger.records import (
    Begin,
    Claim,
    Commit,
    Deleted,
    LedgerDamaged,
    Pin,
    Quarantine,
    Record,
    Release,
    Retire,
    Unpin,
    Verified,
)

CheckpointStatus = Literal["committed", "verified", "quarantined", "retired"]

LEVELS: tuple[VerifyLevel, ...] = ("files", "digests", "tensors", "load")
"""From the weakest to the strongest."""


@dataclass(frozen=True, slots=True)
class ClaimEntry:
    """The one running run."""

    run: str
    owner: Owner
    since: str
    """UTC; when this run first claimed."""


@dataclass(frozen=True, slots=True)
class BeginEntry:
    """One START."""

    term: int
    run: str
    generation: int
    attempt: int
    reason: str
    charged: bool
    source: str | None
    at: str


@dataclass(frozen=True, slots=True)
class CheckpointEntry:
    """A committed checkpoint and what became of it."""

    checkpoint: str
    step: int
    term: int
    seq: int
    """Position of its COMMIT in the log."""
    run: str
    data_version: str
    folder: str
    manifest_sha256: str
    size_bytes: int
    num_files: int
    world_size: int
    parent: str | None
    metrics: Mapping[str, float]
    committed_at: str
    lineage: Lineage | None = None
    status: CheckpointStatus = "committed"
    level: VerifyLevel | None = None
    """What the last VERIFIED record says; kept when it is quarantined or retired later."""
    verified_at: str | None = None
    pins: frozenset[str] = frozenset()
    """Who wants it kept."""
    reason: str = ""
    """Why it was quarantined or retired."""
    retired_by: str = ""
    """The run whose retain stage retired it."""
    is_deleted: bool = False

    @property
    def pinned(self) -> bool:
        return bool(self.pins)

    @property
    def is_usable(self) -> bool:
        """Whether it may be resumed from, as far as the ledger knows."""
        return self.status in ("committed", "verified")


@dataclass(frozen=True, slots=True)
class LedgerState:
    """Everything the records so far say. Immutable; a newer state is a new object."""

    seq: int = 0
    """Position of the last record; 0 when there is none."""
    term: int = 0
    """The newest term; only it may commit. 0 before the first BEGIN."""
    claim: ClaimEntry | None = None
    begins: tuple[BeginEntry, ...] = ()
    checkpoints: Mapping[str, CheckpointEntry] = field(default_factory=lambda: MappingProxyType({}))
    """By checkpoint id, in the order of their commits; retired ones included."""

    def newest_first(self, *statuses: CheckpointStatus) -> list[CheckpointEntry]:
        """Checkpoints of these statuses (all of them when none is named), highest step first, then latest commit."""
        chosen = (entry for entry in self.checkpoints.values() if not statuses or entry.status in statuses)
        return sorted(chosen, key=lambda entry: (entry.step, entry.seq), reverse=True)

    def begins_of(self, run: str) -> tuple[BeginEntry, ...]:
        """Every START of `run`, oldest first."""
        return tuple(begin for begin in self.begins if begin.run == run)


def restarts_used(state: LedgerState, run: str) -> int:
    """How many of `run`'s restarts are spent: its charged BEGINs."""
    return sum(begin.charged for begin in state.begins_of(run))


def fold(state: LedgerState, records: Iterable[Record]) -> LedgerState:
    """The state after `records`, which continue the log where `state` ends. Raises LedgerDamaged."""
    folding = _Folding(state)
    for record in records:
        folding.take(record)
    return folding.state()


class _Folding:
    """A state while it is being folded: mutable, so that many records cost one copy."""

    def __init__(self, state: LedgerState) -> None:
        self._seq, self._term, self._claim = state.seq, state.term, state.claim
        self._begins = list(state.begins)
        self._checkpoints = dict(state.checkpoints)
        self._num_verified = sum(entry.status == "verified" for entry in self._checkpoints.values())

    def state(self) -> LedgerState:
        checkpoints = MappingProxyType(self._checkpoints)
        return LedgerState(self._seq, self._term, self._claim, tuple(self._begins), checkpoints)

    def take(self, record: Record) -> None:
        self._require(record.seq == self._seq + 1, record, f"follows record {self._seq}: one is missing")
        change = record.change
        match change:
            case Claim():
                self._claimed(record, change)
            case Release():
                held = self._claim is not None and self._claim.run == change.run
                self._require(held, record, f"releases a claim that {change.run} does not hold")
                self._claim = None
            case Begin():
                self._begun(record, change)
            case Commit():
                self._committed(record, change)
            case Verified():
                self._verified(record, change)
            case Quarantine():
                entry = self._known(record, change.checkpoint)
                self._require(entry.is_usable, record, f"quarantines {entry.checkpoint}, which is {entry.status}")
                self._put(replace(entry, status="quarantined", reason=change.reason))
            case Pin():
                entry = self._known(record, change.checkpoint)
                self._put(replace(entry, pins=entry.pins | {change.by}))
            case Unpin():
                entry = self._known(record, change.checkpoint)
                self._put(replace(entry, pins=entry.pins - {change.by}))
            case Retire():
                self._retired(record, change)
            case Deleted():
                for checkpoint in change.checkpoints:
                    entry = self._known(record, checkpoint)
                    self._require(entry.status == "retired", record, f"{checkpoint} was deleted but never retired")
                    self._put(replace(entry, is_deleted=True))
        self._seq = record.seq

    def _claimed(self, record: Record, change: Claim) -> None:
        before = self._claim
        if before is not None and before.run != change.run:
            taken = change.taken_from == before.run
            self._require(taken, record, f"claims for {change.run} what {before.run} holds")
        since = before.since if before is not None and before.run == change.run else record.at
        self._claim = ClaimEntry(change.run, change.owner, since)

    def _begun(self, record: Record, change: Begin) -> None:
        self._require(change.term == self._term + 1, record, f"begins term {change.term} after term {self._term}")
        self._term = change.term
        self._begins.append(
            BeginEntry(
                change.term, change.run, change.generation, change.attempt, change.reason, change.charged,
                change.source, record.at,
            )
        )  # fmt: skip

    def _committed(self, record: Record, change: Commit) -> None:
        self._require(change.term == self._term, record, f"commits in term {change.term} during term {self._term}")
        self._require(change.checkpoint not in self._checkpoints, record, f"commits {change.checkpoint} again")
        self._checkpoints[change.checkpoint] = CheckpointEntry(
            checkpoint=change.checkpoint, step=change.step, term=change.term, seq=record.seq, run=change.run,
            data_version=change.data_version, folder=change.folder, manifest_sha256=change.manifest_sha256,
            size_bytes=change.size_bytes, num_files=change.num_files, world_size=change.world_size,
            parent=change.parent, metrics=MappingProxyType(dict(change.metrics)), committed_at=record.at,
            lineage=change.lineage,
        )  # fmt: skip

    def _verified(self, record: Record, change: Verified) -> None:
        entry = self._known(record, change.checkpoint)
        self._require(entry.is_usable, record, f"verifies {entry.checkpoint}, which is {entry.status}")
        self._put(replace(entry, status="verified", level=change.level, verified_at=record.at))

    def _retired(self, record: Record, change: Retire) -> None:
        had_verified = self._num_verified > 0
        for item in change.checkpoints:
            entry = self._known(record, item.checkpoint)
            self._require(entry.status != "retired", record, f"retires {entry.checkpoint} again")
            self._put(replace(entry, status="retired", reason=item.reason, retired_by=change.run))
        # Whatever a policy says, the log itself does not accept the loss of the last verified checkpoint.
        lost = had_verified and self._num_verified == 0
        self._require(not lost, record, "retires the last verified checkpoint")

    def _known(self, record: Record, checkpoint: str) -> CheckpointEntry:
        entry = self._checkpoints.get(checkpoint)
        if entry is None:
            raise self._contradiction(record, f"speaks of {checkpoint}, which was never committed")
        return entry

    def _put(self, entry: CheckpointEntry) -> None:
        before = self._checkpoints[entry.checkpoint]
        self._num_verified += (entry.status == "verified") - (before.status == "verified")
        self._checkpoints[entry.checkpoint] = entry

    def _require(self, holds: bool, record: Record, otherwise: str) -> None:
        if not holds:
            raise self._contradiction(record, otherwise)

    def _contradiction(self, record: Record, what: str) -> LedgerDamaged:
        return LedgerDamaged(
            "ContradictoryRecord",
            f"record {record.seq} ({record.change.kind}) of {record.experiment}/{record.model_version} {what}",
            "restore the log from a copy; nothing was changed or deleted",
        )
