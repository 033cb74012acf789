"""Re-reads every byte of one checkpoint and writes the verdict into the ledger: VERIFIED or QUARANTINE."""

from collections.abc import Mapping
from dataclasses import replace
from time import monotonic

from components.contracts.checkpoint import VerifyLevel
from components.contracts.names import DURING_TRAINING
from components.contracts.units import format_size
from components.errors import BadInput, VerificationFailed
from components.integrity.compare import Previous
from components.integrity.examine import Examination
from components.integrity.fault import Fault
from components.integrity.one_pass import Wanted
from components.integrity.verify import examine, read_manifest
from components.ledger.ledger import Ledger, mark_verified, quarantine
from components.ledger.state import CheckpointEntry, LedgerState
from components.runtime.log import Log
from components.runtime.stage import StageContext
from components.storage.base import open_store
from components.verify.load import load_files
from components.verify.spec import VerifySpec

_NUM_LOGGED = 50


def run(context: StageContext, spec: VerifySpec) -> Mapping[str, str]:
    """Outputs checkpoint, verdict (`verified` or `none`) and level. Raises VerificationFailed."""
    if not spec.has_checkpoints:
        context.log.info("checkpoint: none, so there is nothing to verify")
        return {"checkpoint": "", "verdict": "none", "level": ""}
    ledger = Ledger(open_store(context.storage), spec.experiment, spec.model_version)
    entry = _chosen(ledger, ledger.state(), context.inputs.get("checkpoint", ""))
    if entry.status in ("quarantined", "retired"):
        raise _failed(entry)
    level = spec.level
    if level == "load" and context.task.startswith(f"{DURING_TRAINING}-"):
        level = "tensors"  # loading would take memory from the ranks; the stage after training does it
    verify_entry(ledger, entry, level, context.log)
    return {"checkpoint": entry.checkpoint, "verdict": "verified", "level": level}


def _chosen(ledger: Ledger, state: LedgerState, wanted: str) -> CheckpointEntry:
    name = f"{ledger.experiment}/{ledger.model_version}"
    if wanted:
        if wanted not in state.checkpoints:
            raise BadInput(
                "UnknownCheckpoint", f"{name} has no committed checkpoint {wanted!r}",
                "`checkpoints list` shows what there is",
            )  # fmt: skip
        return state.checkpoints[wanted]
    for entry in state.newest_first("committed", "verified", "quarantined"):
        return entry
    raise VerificationFailed(
        "NothingCommitted", f"{name} has no committed checkpoint",
        "let the program checkpoint at least once before it ends, or set checkpoint: none",
    )  # fmt: skip


def verify_entry(
    ledger: Ledger, entry: CheckpointEntry, level: VerifyLevel, log: Log, *, workers: int | None = None
) -> Examination:
    """Read `entry` through and record the verdict; every fault is logged. Raises VerificationFailed.

    `workers` files are read at a time; None leaves it to the machine.
    """
    started = monotonic()
    found = _examine(ledger, entry, level, workers)
    seconds = monotonic() - started
    for note in found.notes:
        log.info(note, checkpoint=entry.checkpoint)
    if found.faults:
        for fault in found.faults[:_NUM_LOGGED]:
            log.error(str(fault), checkpoint=entry.checkpoint, file=fault.file, tensor=fault.tensor, byte=fault.offset)
        raise _failed(quarantine(ledger, checkpoint=entry.checkpoint, reason=_reason(found.faults)))
    after = mark_verified(ledger, checkpoint=entry.checkpoint, level=level)
    if not after.is_usable:  # another verifier or cleaner was faster
        raise _failed(after)
    log.info(
        f"{entry.checkpoint} is verified ({level}): {entry.num_files} files, {format_size(found.size_bytes)},"
        f" {found.num_tensors} tensors looked into, {seconds:.2f} s",
        checkpoint=entry.checkpoint, step=entry.step, verify_level=level,
    )  # fmt: skip
    return found


def _examine(ledger: Ledger, entry: CheckpointEntry, level: VerifyLevel, workers: int | None) -> Examination:
    store = ledger.store
    previous = previous_of(ledger.state(), entry) if level in ("tensors", "load") else None
    found = examine(store, entry.folder, entry.manifest_sha256, level, workers=workers, previous=previous)
    if level != "load" or found.faults:
        return found
    manifest, faults = read_manifest(store, entry.folder, entry.manifest_sha256)
    if manifest is None:
        return replace(found, faults=tuple(faults))
    files = [Wanted(file.path, file.size_bytes, file.sha256) for file in manifest.files]
    loaded = load_files(store, entry.folder, files)
    return replace(found, faults=loaded.faults, notes=(*found.notes, *loaded.notes))


def previous_of(state: LedgerState, entry: CheckpointEntry) -> Previous | None:
    """What `entry` is compared with: the usable one its run committed before it, else the one it was resumed from."""
    own = [
        other for other in state.checkpoints.values()
        if other.run == entry.run and other.seq < entry.seq and other.status == "verified"
    ]  # fmt: skip
    if own:
        before = max(own, key=lambda other: other.seq)
        return Previous(before.checkpoint, before.folder, before.manifest_sha256, is_same_run=True)
    parent = state.checkpoints.get(entry.parent or "")
    if parent is None or not parent.is_usable:
        return None
    return Previous(parent.checkpoint, parent.folder, parent.manifest_sha256, is_same_run=False)


def _reason(faults: tuple[Fault, ...]) -> str:
    return str(faults[0]) + (f"; and {len(faults) - 1} more" if len(faults) > 1 else "")


def _failed(entry: CheckpointEntry) -> VerificationFailed:
    fix = (
        "a restart resumes from the newest good one; for NaN or Inf look at the loss before this step,"
        " for anything else at the disk"
    )
    if entry.status == "retired":
        fix = "verify one that is still kept: `checkpoints list`"
    return VerificationFailed(
        "CheckpointQuarantined" if entry.status == "quarantined" else "CheckpointRetired",
        f"{entry.checkpoint} is {entry.status}: {entry.reason}", fix,
    )  # fmt: skip
