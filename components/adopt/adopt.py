"""Adopts a checkpoint that somebody else wrote: looked through, copied, committed and verified like one of ours.

    recognise -> look through -> CLAIM -> BEGIN -> copy with SHA-256 -> COMMIT -> verify -> VERIFIED -> RELEASE

The files are copied, never moved or linked: retention deletes what lies in the storage, and what somebody else made is
not ours to delete. Nothing is written before the look through found nothing; a copy that broke off is an orphan of its
term, which retention collects.
"""

import os
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from components.contracts.checkpoint import CheckpointReceipt, Lineage
from components.contracts.dataset import StoredFile
from components.contracts.layout import checkpoint_folder
from components.contracts.names import ExperimentName, Identifier, new_run_name
from components.errors import ArgosyError, BadInput, Problem, VerificationFailed
from components.integrity.examine import auto_workers
from components.integrity.examine_place import examine_place
from components.integrity.fault import Fault
from components.integrity.layouts import Layout, recognise, step_of
from components.integrity.one_pass import Wanted
from components.integrity.place import Place, UnusablePlace, find_place
from components.integrity.verify import examine
from components.ledger.ledger import Ledger, RunActive, begin, claim, commit, mark_verified, quarantine, release
from components.ledger.owner import is_gone, this_process
from components.ledger.publish import write_manifest
from components.storage.base import ObjectStore
from components.storage.location import StoreOptions

UNKNOWN_DATA = "unknown"
"""The data version when nobody says it: resuming then takes `on_new_data: continue`."""
_COPY_BYTES = 1 << 20
_NUM_TOLD = 20


@dataclass(frozen=True)
class Adopted:
    """What became of it."""

    checkpoint: str
    """Its id in the ledger, verified at level `tensors`."""
    step: int
    layout: str
    """Who wrote it, as `components.integrity.layouts` calls them: `Megatron`, `HF Trainer`, ..."""
    folder: str
    """Key of its folder in the storage."""
    num_files: int
    size_bytes: int
    num_tensors: int
    notes: tuple[str, ...]
    """What could not be looked into."""


def adopt(
    store: ObjectStore, where: str, *, experiment: str, model_version: str, data_version: str | None = None,
    step: int | None = None, workers: int | None = None, lineage: Lineage | None = None,
    options: StoreOptions | None = None, on_progress: Callable[[str], None] = lambda text: None,
) -> Adopted:  # fmt: skip
    """Copy the checkpoint at `where` (a path, `file:///...` or `s3://...`) into `store` and verify it there.

    `step` is read from names and files when it is None; `options` say how the bucket at `where` is reached, where the
    environment does not; `on_progress` hears a sentence before each long step. The files at `where` are only read.

    Raises BadInput (unknown format, unusable files, no step), RunActive while a run of this experiment and model
    version is running, VerificationFailed when it is damaged.
    """
    _check_names(experiment, model_version, data_version, step)
    place = find_place(where, options)
    if place.uri.startswith(f"{store.uri.rstrip('/')}/checkpoints/"):
        raise BadInput("AlreadyThere", f"{place.uri} lies in this storage already", "`checkpoints list` shows it")
    layout = recognise(place)
    chosen = step_of(layout, given=step, where=place.uri)
    ledger = Ledger(store, experiment, model_version)
    held = ledger.state().claim
    if held is not None and not is_gone(held.owner):
        raise RunActive(held, experiment=experiment, model_version=model_version)
    on_progress(f"looking through {len(place.files)} files ({layout.kind}), step {chosen}")
    found = examine_place(place, "tensors", workers=workers)
    if found.faults:
        raise _damaged(place.uri, found.faults, "nothing was copied; adopt an older one")
    run = new_run_name("adopt")
    claim(ledger, run=run, owner=this_process(target="local"), is_gone=is_gone)
    outcome = "Failed"
    try:
        adopted = _adopt(
            ledger, place, layout, run, chosen, data_version or UNKNOWN_DATA, workers, lineage, on_progress
        )
        outcome = "Succeeded"
    finally:
        release(ledger, run=run, outcome=outcome)
    return adopted


def _adopt(
    ledger: Ledger, place: Place, layout: Layout, run: str, step: int, data_version: str, workers: int | None,
    lineage: Lineage | None, on_progress: Callable[[str], None],
) -> Adopted:  # fmt: skip
    store = ledger.store
    term = begin(ledger, run=run, generation=0, attempt=0, reason="adopt", charged=False, source=None)
    folder = checkpoint_folder(ledger.experiment, ledger.model_version, data_version, step=step, term=term)
    size_bytes = sum(file.size_bytes for file in place.files)
    on_progress(f"copying {len(place.files)} files, {size_bytes} bytes, to {store.uri_of(folder)}")
    receipt = CheckpointReceipt(term=term, step=step, node_rank=0, files=_copy_all(store, folder, place, workers))
    manifest, sha256 = write_manifest(
        store, receipts=[receipt], experiment=ledger.experiment, model_version=ledger.model_version,
        data_version=data_version, run=run, term=term, step=step, world_size=layout.world_size, parent=None,
        metrics=layout.metrics, lineage=lineage,
    )  # fmt: skip
    commit(ledger, manifest=manifest, manifest_sha256=sha256)
    on_progress("verifying the copy")
    found = examine(store, folder, sha256, "tensors", workers=workers)
    if found.faults:
        quarantine(ledger, checkpoint=manifest.checkpoint, reason=str(found.faults[0]))
        raise _damaged(store.uri_of(folder), found.faults, "it is quarantined; look at the disk, then adopt it again")
    mark_verified(ledger, checkpoint=manifest.checkpoint, level="tensors")
    return Adopted(
        manifest.checkpoint, step, layout.kind, folder, len(manifest.files), manifest.size_bytes, found.num_tensors,
        found.notes,
    )  # fmt: skip


def _copy_all(store: ObjectStore, folder: str, place: Place, workers: int | None) -> tuple[StoredFile, ...]:
    def copy(file: Wanted) -> StoredFile:
        with _local(place, file) as path:
            before = path.stat()
            sha256 = store.create_from(f"{folder}/{file.path}", path)
            after = path.stat()
        changed = (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns)
        if changed or before.st_size != file.size_bytes:
            raise UnusablePlace(
                "CheckpointChanged", f"{file.path} changed while it was being copied",
                "adopt it once its program has finished writing",
            )  # fmt: skip
        return StoredFile(path=file.path, size_bytes=before.st_size, sha256=sha256)

    with ThreadPoolExecutor(workers or auto_workers()) as pool:
        try:
            return tuple(pool.map(copy, place.files))
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


@contextmanager
def _local(place: Place, file: Wanted) -> Iterator[Path]:
    """The file on this machine; fetched for as long as it takes when it lies elsewhere."""
    path = place.store.local_path(place.key(file.path))
    if path is not None:
        yield path
        return
    descriptor, name = tempfile.mkstemp(prefix="argosy-adopt-")
    try:
        with place.store.open(place.key(file.path)) as stream, os.fdopen(descriptor, "wb") as copy:
            while chunk := stream.read(_COPY_BYTES):
                copy.write(chunk)
        yield Path(name)
    finally:
        os.unlink(name)


def _check_names(experiment: str, model_version: str, data_version: str | None, step: int | None) -> None:
    problems = []
    rules: list[tuple[str, str | None, TypeAdapter[str]]] = [
        ("experiment", experiment, TypeAdapter(ExperimentName)),
        ("model_version", model_version, TypeAdapter(Identifier)),
        ("data_version", data_version, TypeAdapter(Identifier)),
    ]
    for name, value, rule in rules:
        try:
            if value is not None:
                rule.validate_python(value)
        except ValidationError as error:
            problems.append(Problem(name, f"{value!r}: {error.errors()[0]['msg']}"))
    if step is not None and step < 0:
        problems.append(Problem("step", f"{step} is below 0"))
    if problems:
        raise BadInput("BadNames", "what to adopt it as cannot be used", problems=problems)


def _damaged(where: str, faults: tuple[Fault, ...], fix: str) -> ArgosyError:
    told = "; ".join(str(fault) for fault in faults[:_NUM_TOLD])
    more = f"; and {len(faults) - _NUM_TOLD} more" if len(faults) > _NUM_TOLD else ""
    return VerificationFailed("CheckpointDamaged", f"{where}: {told}{more}", fix)
