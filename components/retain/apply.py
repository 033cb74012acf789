"""Carries a retention plan out: RETIRE in the ledger first, then the objects, then DELETED.

Killed at any point it is simply run again: what is retired is final, and only objects of retired checkpoints and of
attempts that can never commit any more are ever deleted. Two cleaners and a live writer do not disturb each other.
"""

import re
from collections.abc import Iterator

from components.contracts.layout import checkpoint_folder, ledger_folder
from components.contracts.retention import RetentionPlan, RetentionPolicy
from components.integrity.verify import verify_checkpoint
from components.ledger.ledger import Ledger
from components.ledger.records import Change, Deleted, Quarantine, Retire, Retired
from components.ledger.state import LedgerState
from components.retain.plan import plan_retention, to_retire
from components.runtime.log import Log

_ATTEMPT = re.compile(r"^(?P<data_version>[^/]+)/step-(?P<step>\d{12})/term-(?P<term>\d{6,})/")


def apply_retention(ledger: Ledger, policy: RetentionPolicy, *, run: str, log: Log) -> RetentionPlan:
    """Retire what `policy` does not keep and delete it; returns the plan as it holds afterwards."""
    _retire(ledger, policy, run=run, log=log)
    num_objects = _delete_objects(ledger, log)
    _report_deleted(ledger)
    if num_objects:
        log.info(f"{num_objects} objects deleted")
    return plan_retention(ledger.state(), policy)


def _retire(ledger: Ledger, policy: RetentionPolicy, *, run: str, log: Log) -> None:
    def decide(state: LedgerState) -> Change | None:
        plan = plan_retention(state, policy)
        going = to_retire(state, plan)
        if not going:
            return None
        damaged = _damaged_survivor(ledger, state, plan)
        if damaged is not None:
            return damaged
        return Retire(
            run=run, checkpoints=tuple(Retired(checkpoint=item.checkpoint, reason=item.reason) for item in going),
            survivors=plan.kept,
        )  # fmt: skip

    while (record := ledger.append(decide)) is not None:
        if isinstance(record.change, Quarantine):
            log.error(f"{record.change.checkpoint} is quarantined: {record.change.reason}")
            continue  # a survivor turned out damaged: decide again without counting on it
        assert isinstance(record.change, Retire)
        for item in record.change.checkpoints:
            log.info(f"delete {item.checkpoint}: {item.reason}", checkpoint=item.checkpoint)


def _damaged_survivor(ledger: Ledger, state: LedgerState, plan: RetentionPlan) -> Quarantine | None:
    """The first survivor whose files are not all there any more: it must not be counted on."""
    for checkpoint in plan.kept:
        entry = state.checkpoints[checkpoint]
        if not entry.is_usable:
            continue
        faults = verify_checkpoint(ledger.store, entry.folder, entry.manifest_sha256, "files")
        if faults:
            return Quarantine(checkpoint=checkpoint, reason=str(faults[0]))
    return None


def _delete_objects(ledger: Ledger, log: Log) -> int:
    """Delete every object of retired checkpoints and of fenced attempts without a COMMIT; returns how many.

    One listing shows both. The state is folded after it, so that nothing listed can become committed later: an older
    term is fenced for ever, and the newest term's folders are left alone whether or not its gang still lives.
    """
    listed = list(_attempts(ledger))
    state = ledger.state()
    retired = {entry.folder for entry in state.checkpoints.values() if entry.status == "retired"}
    committed = {entry.folder for entry in state.checkpoints.values()}
    orphans = set()
    num_objects = 0
    for key, folder, term in listed:
        if folder in retired:
            ledger.store.delete(key)
        elif folder not in committed and term < state.term:
            orphans.add(folder)
            ledger.store.delete(key)
        else:
            continue
        num_objects += 1
    for folder in sorted(orphans):
        log.info(f"delete {folder}: an attempt that never committed, of a term that is over")
    return num_objects


def _attempts(ledger: Ledger) -> Iterator[tuple[str, str, int]]:
    """(key, folder, term) of every object that lies in a checkpoint folder of this experiment and model version."""
    log_folder = ledger_folder(ledger.experiment, ledger.model_version)
    root = log_folder.rpartition("/")[0]
    for item in ledger.store.list(root):
        match = _ATTEMPT.match(item.key[len(root) + 1 :])
        if match is None or item.key.startswith(f"{log_folder}/"):
            continue
        folder = checkpoint_folder(
            ledger.experiment, ledger.model_version, match["data_version"], step=int(match["step"]),
            term=int(match["term"]),
        )  # fmt: skip
        if item.key.startswith(f"{folder}/"):
            yield item.key, folder, int(match["term"])


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
