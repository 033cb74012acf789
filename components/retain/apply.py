"""Carries a retention plan out: RETIRE in the ledger first, then the objects, then DELETED.

Killed at any point it is simply run again: what is retired is final, and only objects of retired checkpoints and of
attempts that can never commit any more are ever deleted. Two cleaners and a live writer do not disturb each other.
"""

import os
import time
from collections.abc import Callable
from datetime import datetime

from components.contracts.checkpoint import VerifyLevel
from components.contracts.layout import ledger_folder
from components.contracts.retention import RetentionPlan, RetentionPolicy
from components.contracts.units import format_size
from components.integrity.verify import verify_checkpoint
from components.ledger.ledger import Ledger
from components.ledger.records import Change, Deleted, Quarantine, Retire, Retired
from components.ledger.state import CheckpointEntry, LedgerState
from components.retain.objects import delete_objects, doomed_objects
from components.retain.plan import counted_on, plan_retention, to_retire
from components.runtime.log import Log
from components.storage.base import ObjectStore, StorageError
from components.storage.local import LocalStore


def apply_retention(
    ledger: Ledger, policy: RetentionPolicy, *, run: str, log: Log, now: datetime,
    pause: Callable[[float], None] = time.sleep, sweeps: bool = True,
) -> RetentionPlan:  # fmt: skip
    """Retire what `policy` does not keep and delete it; returns the plan as it holds afterwards.

    With `sweeps` everything is listed, and what attempts that can never commit left behind goes too.
    """
    try:
        _retire(ledger, policy, run=run, log=log, now=now)
    except StorageError:
        # A full disk, perhaps. What was retired earlier may still go; nothing is given up for the sake of room.
        _delete(ledger, log, pause, sweeps)
        raise
    _delete(ledger, log, pause, sweeps)
    _report_deleted(ledger)
    return plan_retention(ledger.state(), policy, now)


def _retire(ledger: Ledger, policy: RetentionPolicy, *, run: str, log: Log, now: datetime) -> None:
    looked_at: set[tuple[str, VerifyLevel]] = set()

    def decide(state: LedgerState) -> Change | None:
        going = to_retire(state, plan_retention(state, policy, now))
        if not going:
            return None
        survivors = counted_on(state, policy)
        damaged = _damaged(ledger, survivors, looked_at)
        if damaged is not None:
            return damaged
        return Retire(
            run=run, checkpoints=tuple(Retired(checkpoint=item.checkpoint, reason=item.reason) for item in going),
            survivors=tuple(entry.checkpoint for entry in survivors),
        )  # fmt: skip

    while (record := ledger.append(decide)) is not None:
        if isinstance(record.change, Quarantine):
            log.error(f"{record.change.checkpoint} is quarantined: {record.change.reason}")
            continue  # a survivor turned out damaged: decide again without counting on it
        assert isinstance(record.change, Retire)
        for item in record.change.checkpoints:
            log.info(f"delete {item.checkpoint}: {item.reason}", checkpoint=item.checkpoint)


def _damaged(
    ledger: Ledger, survivors: list[CheckpointEntry], looked_at: set[tuple[str, VerifyLevel]]
) -> Quarantine | None:
    """The first survivor that is not what was committed any more: it must not be counted on.

    Of the newest every byte is read: bits rot without a trace in names and sizes, and one at least must be good now.
    Of the others names and sizes are compared. Only those are looked at that the rule counts on, a handful whatever
    else is kept, and each once in a call: what another rule keeps as well takes no part in the promise.
    """
    for number, entry in enumerate(survivors):
        level: VerifyLevel = "files" if number else "digests"
        if (entry.checkpoint, level) in looked_at:
            continue
        faults = verify_checkpoint(ledger.store, entry.folder, entry.manifest_sha256, level)
        if faults:
            return Quarantine(checkpoint=entry.checkpoint, reason=str(faults[0]))
        _require_readable(ledger.store, entry)
        looked_at.add((entry.checkpoint, level))
    return None


def _require_readable(store: ObjectStore, entry: CheckpointEntry) -> None:
    """What may not be read is no damage, but nothing may go because of it either. A bucket gives all or nothing."""
    if not isinstance(store, LocalStore):
        return
    for item in store.list(entry.folder):
        path = store.root / item.key
        if not os.access(path, os.R_OK):
            raise StorageError(
                "StorageRefused", f"cannot read {path}: Permission denied, and {entry.checkpoint} is counted on",
                f"nothing was retired; give uid {os.getuid()} access",
            )  # fmt: skip


def _delete(ledger: Ledger, log: Log, pause: Callable[[float], None], sweeps: bool) -> None:
    doomed = doomed_objects(ledger, sweeps=sweeps)
    delete_objects(ledger, doomed, pause=pause)
    for folder in doomed.orphans:
        log.info(f"delete {folder}: an attempt that never committed, of a term that is over")
    if sweeps and isinstance(ledger.store, LocalStore):
        root = ledger_folder(ledger.experiment, ledger.model_version).rpartition("/")[0]
        if num_unfinished := ledger.store.sweep(root):
            log.info(f"{num_unfinished} unfinished files of writers that are gone deleted")
    if doomed.keys:
        log.info(f"{len(doomed.keys)} objects deleted, {format_size(doomed.size_bytes)}")


def _report_deleted(ledger: Ledger) -> None:
    def decide(state: LedgerState) -> Change | None:
        gone = [
            entry.checkpoint
            for entry in state.checkpoints.values()
            if entry.status == "retired"
            and not entry.is_deleted
            and next(ledger.store.list(entry.folder), None) is None
        ]
        return Deleted(checkpoints=tuple(gone)) if gone else None

    ledger.append(decide)
