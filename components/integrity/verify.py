"""Checks a stored checkpoint against its manifest, reading every byte at most once.

    files     the files are exactly those of the manifest, each of its size
    digests   and every byte's SHA-256 is the recorded one
    tensors   and every file is well-formed by its format, free of NaN and Inf, and of the types it had before

Nothing is unpickled, no tensor library is loaded, memory does not grow with the files.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import replace

from components.contracts.checkpoint import CheckpointManifest, VerifyLevel
from components.contracts.document import DamagedDocument
from components.contracts.layout import checkpoint_manifest_key
from components.integrity.compare import Previous, compare_types
from components.integrity.examine import Examination, examine_files
from components.integrity.fault import Fault
from components.integrity.formats import Formats
from components.integrity.inspector import TensorType
from components.integrity.megatron import integrity_faults
from components.integrity.one_pass import Wanted
from components.integrity.safe_path import MANIFEST_NAME, RECEIPTS_NAME, fault_of_path
from components.storage.base import ObjectNotFound, ObjectStore

_MAX_MANIFEST_BYTES = 64 << 20


def verify_checkpoint(store: ObjectStore, folder: str, manifest_sha256: str, level: VerifyLevel) -> list[Fault]:
    """Everything wrong with the checkpoint in `folder` (a key) at `level`; empty when nothing is.

    Raises Transient and StorageError when the store itself fails: that says nothing about the checkpoint.
    """
    return list(examine(store, folder, manifest_sha256, level).faults)


def examine(
    store: ObjectStore, folder: str, manifest_sha256: str, level: VerifyLevel, *, workers: int | None = None,
    previous: Previous | None = None,
) -> Examination:  # fmt: skip
    """`verify_checkpoint`, with what was read and what could not be looked into.

    `workers` files are read at a time; None leaves it to the machine. At level `tensors` types are compared with those
    of `previous`, of which only headers are read. Level `load` looks like `tensors` here: loading is another step.
    """
    manifest, faults = read_manifest(store, folder, manifest_sha256)
    if manifest is None:
        return Examination(tuple(faults))
    faults = list(_compare_files(store, folder, manifest))
    if level == "files":
        return Examination(tuple(faults))
    look_inside = level != "digests"
    broken = {fault.file for fault in faults}
    files = [file for file in _wanted(manifest) if file.path not in broken]
    found = examine_files(store, folder, files, look_inside=look_inside, workers=workers)
    faults += found.faults
    notes = list(found.notes)
    if look_inside:
        faults += integrity_faults(store, folder, files)
    if look_inside and previous is not None and not faults:
        before = types_of(store, previous)
        more, said = compare_types(found.types, before, previous=previous) if before else ([], [])
        faults += more
        notes += said
    return replace(found, faults=tuple(faults), notes=tuple(notes))


def types_of(store: ObjectStore, previous: Previous) -> dict[str, TensorType]:
    """The tensors of an earlier checkpoint, from headers alone; empty when it cannot be read any more."""
    manifest, _ = read_manifest(store, previous.folder, previous.manifest_sha256)
    if manifest is None or any(True for _ in _compare_files(store, previous.folder, manifest)):
        return {}
    formats = Formats(store, previous.folder, _wanted(manifest))
    try:
        formats.read_tables_only()
    except ObjectNotFound:
        return {}  # retired by somebody meanwhile; half of it would say that tensors were added
    return formats.types()


def read_manifest(
    store: ObjectStore, folder: str, manifest_sha256: str
) -> tuple[CheckpointManifest | None, list[Fault]]:
    """The manifest the ledger speaks of, or None and why it is not that one."""
    key = checkpoint_manifest_key(folder)
    try:
        with store.open(key) as stream:
            data = stream.read(_MAX_MANIFEST_BYTES)
    except ObjectNotFound:
        return None, [Fault(MANIFEST_NAME, "is missing")]
    found = hashlib.sha256(data).hexdigest()
    if found != manifest_sha256:
        return None, [Fault(MANIFEST_NAME, "SHA-256 differs from the ledger's", None, None, manifest_sha256, found)]
    try:
        return CheckpointManifest.from_bytes(data, where=store.uri_of(key)), []
    except DamagedDocument as error:
        return None, [Fault(MANIFEST_NAME, error.seen)]


def _wanted(manifest: CheckpointManifest) -> list[Wanted]:
    return [Wanted(file.path, file.size_bytes, file.sha256) for file in manifest.files]


def _compare_files(store: ObjectStore, folder: str, manifest: CheckpointManifest) -> Iterator[Fault]:
    stored = {item.key[len(folder) + 1 :]: item.size_bytes for item in store.list(folder)}
    listed: set[str] = set()
    for file in manifest.files:
        unsafe = fault_of_path(file.path)
        if unsafe:
            yield Fault(file.path, f"the name {unsafe}")
        elif file.path in listed:
            yield Fault(file.path, "is listed twice in the manifest")
        elif file.path not in stored:
            yield Fault(file.path, "is missing", None, None, f"{file.size_bytes} bytes", "")
        elif stored[file.path] != file.size_bytes:
            found = stored[file.path]
            cut = min(found, file.size_bytes)
            yield Fault(file.path, "has another size", cut, None, f"{file.size_bytes} bytes", f"{found} bytes")
        listed.add(file.path)
    for path in sorted(stored.keys() - listed):
        if path != MANIFEST_NAME and path.split("/")[0] != RECEIPTS_NAME:
            yield Fault(path, "is not in the manifest", None, None, "", f"{stored[path]} bytes")
