"""The protocol: what launch, agents, verify and people do to a ledger. Every action may run twice.

launch    claim ............................................... release
agent 0          begin (one a START) -> commit, commit, ...
verify                                   mark_verified | quarantine
anyone                                   pin, unpin
"""

from collections.abc import Callable, Iterable

from components.contracts.checkpoint import CheckpointManifest, VerifyLevel
from components.contracts.layout import checkpoint_folder
from components.errors import BadInput, Stopped, Transient
from components.ledger.log import Ledger
from components.ledger.owner import Owner, is_gone, this_process
from components.ledger.records import (
    Begin,
    Change,
    Claim,
    Commit,
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
from components.ledger.state import (
    LEVELS,
    BeginEntry,
    CheckpointEntry,
    CheckpointStatus,
    ClaimEntry,
    LedgerState,
    restarts_used,
)

__all__ = [
    "BeginEntry", "CheckpointEntry", "CheckpointStatus", "ClaimEntry", "ClaimLost", "Fenced", "Ledger", "LedgerDamaged",
    "LedgerState", "Owner", "Record", "Retire", "Retired", "RunActive", "SourceLost", "begin", "claim", "commit",
    "is_gone", "mark_verified", "pin", "quarantine", "release", "restarts_used", "this_process", "unpin",
]  # fmt: skip


class RunActive(BadInput):
    """Another run of this experiment and model version is running. `run`, `owner` and `since` say which."""

    def __init__(self, held: ClaimEntry, *, experiment: str, model_version: str, known: str = "") -> None:
        """`known` is what was seen of that run besides its claim."""
        self.run, self.owner, self.since = held.run, held.owner, held.since
        super().__init__(
            "RunActive",
            f"run {held.run} ({held.owner}) has been running {experiment}/{model_version} since {held.since}"
            + (f"; {known}" if known else ""),
            f"wait for it, stop it with `stop {held.run}`, or choose another experiment or model_version",
        )


class Fenced(Stopped):
    """A newer term began: this gang is superseded and must stop. Nothing was written."""


class ClaimLost(Fenced):
    """This run no longer holds the claim: it was released or taken over."""


class SourceLost(Transient):
    """Between the selection and BEGIN the chosen source was retired or quarantined, or a better one came: select again.
    Nothing was written.
    """


def claim(ledger: Ledger, *, run: str, owner: Owner, is_gone: Callable[[Owner], bool]) -> None:
    """Make `run` the one running run. Raises RunActive when another run is and its owner is not provably gone.

    The same run may claim again, from another process: it is a later attempt of its launcher.
    """

    def decide(state: LedgerState) -> Change | None:
        held = state.claim
        if held is None:
            return Claim(run=run, owner=owner)
        if held.run == run:
            return None if held.owner == owner else Claim(run=run, owner=owner)
        if is_gone(held.owner):
            return Claim(run=run, owner=owner, taken_from=held.run)
        raise RunActive(held, experiment=ledger.experiment, model_version=ledger.model_version)

    ledger.append(decide)


def release(ledger: Ledger, *, run: str, outcome: str) -> None:
    """Give the claim up; nothing happens when `run` does not hold it. Also drops the pins `run` set elsewhere."""

    def decide(state: LedgerState) -> Change | None:
        held = state.claim
        return Release(run=run, outcome=outcome) if held is not None and held.run == run else None

    for experiment, checkpoint in _foreign(entry.source for entry in ledger.state().begins_of(run)):
        unpin(Ledger(ledger.store, experiment, ledger.model_version), checkpoint=checkpoint, by=_borrower(ledger, run))
    ledger.append(decide)


def begin(
    ledger: Ledger, *, run: str, generation: int, attempt: int, reason: str, charged: bool, source: str | None,
    is_still_chosen: Callable[[LedgerState], bool] | None = None,
) -> int:  # fmt: skip
    """Begin a new term, which fences every earlier one, and return it.

    `source` is `Source.checkpoint` of the selection this START resumes from; None for a fresh start. Until this BEGIN
    stands an older term may commit, so `is_still_chosen` is asked of the very state it follows: `select.still_chosen`.
    Raises ClaimLost when `run` does not hold the claim, Fenced when a later generation of it began, SourceLost.
    """

    def decide(state: LedgerState) -> Change | None:
        if state.claim is None or state.claim.run != run:
            holder = "nobody" if state.claim is None else f"run {state.claim.run}"
            raise ClaimLost(
                "ClaimLost", f"{ledger.experiment}/{ledger.model_version} is claimed by {holder}, not by {run}",
                "this gang must stop",
            )  # fmt: skip
        for earlier in state.begins_of(run):
            if earlier.generation > generation:  # a zombie must not fence its own replacement
                raise Fenced(
                    "Fenced", f"generation {earlier.generation} of {run} has begun, this is generation {generation}",
                    "this gang must stop",
                )  # fmt: skip
        entry = state.checkpoints.get(source) if source is not None else None
        if entry is not None and not entry.is_usable:
            raise SourceLost("SourceLost", f"{entry.checkpoint} became {entry.status}", "select again")
        if is_still_chosen is not None and not is_still_chosen(state):
            what = "a fresh start" if source is None else source
            raise SourceLost("SourceLost", f"{what} is not what would be chosen any more", "select again")
        return Begin(
            term=state.term + 1, run=run, generation=generation, attempt=attempt, reason=reason, charged=charged,
            source=source,
        )  # fmt: skip

    for experiment, checkpoint in _foreign([source]):
        # The other experiment's retention does not know this run; the pin tells it, until `release`.
        pin(Ledger(ledger.store, experiment, ledger.model_version), checkpoint=checkpoint, by=_borrower(ledger, run))
    record = ledger.append(decide)
    assert record is not None
    assert isinstance(record.change, Begin)
    return record.change.term


def commit(ledger: Ledger, *, manifest: CheckpointManifest, manifest_sha256: str) -> None:
    """Make the checkpoint count. Raises Fenced when a newer term began; does nothing when it is committed already."""
    folder = checkpoint_folder(
        manifest.experiment, manifest.model_version, manifest.data_version, step=manifest.step, term=manifest.term
    )

    def decide(state: LedgerState) -> Change | None:
        known = state.checkpoints.get(manifest.checkpoint)
        if known is not None and known.manifest_sha256 == manifest_sha256:
            return None
        if manifest.term != state.term:
            raise Fenced(
                "Fenced", f"{manifest.checkpoint} belongs to term {manifest.term}, but term {state.term} has begun",
                "another gang runs this experiment now; this one must stop",
            )  # fmt: skip
        return Commit(
            checkpoint=manifest.checkpoint, term=manifest.term, step=manifest.step, run=manifest.run,
            data_version=manifest.data_version, folder=folder, manifest_sha256=manifest_sha256,
            size_bytes=manifest.size_bytes, num_files=len(manifest.files), world_size=manifest.world_size,
            parent=manifest.parent, metrics=manifest.metrics, lineage=manifest.lineage,
        )  # fmt: skip

    ledger.append(decide, from_known=True)


def mark_verified(ledger: Ledger, *, checkpoint: str, level: VerifyLevel) -> CheckpointEntry:
    """Record that every check up to `level` passed, unless that, or more, is known. The entry as it is afterwards:
    quarantined and retired are final, so look at its status.
    """

    def decide(state: LedgerState) -> Change | None:
        entry = _known(ledger, state, checkpoint)
        is_news = entry.level is None or LEVELS.index(entry.level) < LEVELS.index(level)
        return Verified(checkpoint=checkpoint, level=level) if entry.is_usable and is_news else None

    ledger.append(decide)
    return _known(ledger, ledger.state(), checkpoint)


def quarantine(ledger: Ledger, *, checkpoint: str, reason: str) -> CheckpointEntry:
    """Record that the checkpoint is damaged. The entry as it is afterwards: a retired one stays retired."""

    def decide(state: LedgerState) -> Change | None:
        entry = _known(ledger, state, checkpoint)
        return Quarantine(checkpoint=checkpoint, reason=reason) if entry.is_usable else None

    ledger.append(decide)
    return _known(ledger, ledger.state(), checkpoint)


def pin(ledger: Ledger, *, checkpoint: str, by: str) -> None:
    """Keep the checkpoint whatever the retention policy says. Raises BadInput when it is unknown or retired."""

    def decide(state: LedgerState) -> Change | None:
        entry = _known(ledger, state, checkpoint)
        if entry.status == "retired":
            raise BadInput("CheckpointRetired", f"{checkpoint} is retired: {entry.reason}", "choose another one")
        return None if by in entry.pins else Pin(checkpoint=checkpoint, by=by)

    ledger.append(decide)


def unpin(ledger: Ledger, *, checkpoint: str, by: str) -> None:
    """Take `by`'s pin away; nothing happens when there is none."""

    def decide(state: LedgerState) -> Change | None:
        return Unpin(checkpoint=checkpoint, by=by) if by in _known(ledger, state, checkpoint).pins else None

    ledger.append(decide)


def _borrower(ledger: Ledger, run: str) -> str:
    return f"run {run} of {ledger.experiment}"


def _foreign(sources: Iterable[str | None]) -> set[tuple[str, str]]:
    """(experiment, checkpoint) of the sources that lie in another experiment."""
    split = (source.partition("@") for source in sources if source and "@" in source)
    return {(experiment, checkpoint) for experiment, _, checkpoint in split}


def _known(ledger: Ledger, state: LedgerState, checkpoint: str) -> CheckpointEntry:
    entry = state.checkpoints.get(checkpoint)
    if entry is None:
        raise BadInput(
            "UnknownCheckpoint",
            f"{ledger.experiment}/{ledger.model_version} has no committed checkpoint {checkpoint!r}",
            "`checkpoints list` shows what there is",
        )
    return entry
