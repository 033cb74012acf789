"""Checks a stored checkpoint against its manifest, reading every byte at most once.

    files     the files are exactly those of the manifest, each of its size
    digests   and every byte's SHA-256 is the recorded one
    tensors   and every safetensors file is well-formed and free of NaN and Inf, every .json file is JSON

Nothing is unpickled, no tensor library is loaded, memory does not grow with the files.
"""

import errno
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from components.contracts.checkpoint import CheckpointManifest, VerifyLevel
from components.contracts.dataset import StoredFile
from components.contracts.document import DamagedDocument
from components.contracts.layout import checkpoint_manifest_key
from components.errors import Transient
from components.integrity.fault import Fault
from components.integrity.json_text import JsonInspector
from components.integrity.safe_path import MANIFEST_NAME, RECEIPTS_NAME, fault_of_path
from components.integrity.safetensors import SafetensorsInspector
from components.storage.base import ObjectNotFound, ObjectStore

_CHUNK_BYTES = 1 << 20
_MAX_MANIFEST_BYTES = 64 << 20


@dataclass(frozen=True)
class Examination:
    """What a look at a checkpoint found."""

    faults: tuple[Fault, ...]
    notes: tuple[str, ...] = ()
    """What could not be looked at more closely, for example the inside of an unknown format."""
    size_bytes: int = 0
    """Bytes read."""
    num_tensors: int = 0


class Inspector(Protocol):
    """Looks at a file's content as it streams by."""

    num_tensors: int
    note: str
    """What it did not look into; empty when it looked into everything."""

    def feed(self, chunk: memoryview) -> None:
        """The next bytes. The buffer is reused: copy what must stay."""

    def finish(self) -> list[Fault]:
        """All findings, after the last byte."""


def verify_checkpoint(store: ObjectStore, folder: str, manifest_sha256: str, level: VerifyLevel) -> list[Fault]:
    """Everything wrong with the checkpoint in `folder` (a key) at `level`; empty when nothing is.

    Raises Transient and StorageError when the store itself fails: that says nothing about the checkpoint.
    """
    return list(examine(store, folder, manifest_sha256, level).faults)


def examine(store: ObjectStore, folder: str, manifest_sha256: str, level: VerifyLevel) -> Examination:
    """`verify_checkpoint`, with what was read and what could not be looked into."""
    manifest, faults = read_manifest(store, folder, manifest_sha256)
    if manifest is None:
        return Examination(tuple(faults))
    faults = list(_compare_files(store, folder, manifest))
    if level == "files":
        return Examination(tuple(faults))
    broken = {fault.file for fault in faults}
    notes: list[str] = []
    size_bytes = num_tensors = 0
    for file in manifest.files:
        if file.path in broken:
            continue
        inspector = _inspector(file) if level == "tensors" else None
        faults += _read_through(store, folder, file, inspector)
        size_bytes += file.size_bytes
        if inspector is not None:
            num_tensors += inspector.num_tensors
            notes += [inspector.note] if inspector.note else []
        elif level == "tensors":
            notes.append(f"{file.path}: digest only, its format is not looked into")
    return Examination(tuple(faults), tuple(notes), size_bytes, num_tensors)


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


def _inspector(file: StoredFile) -> Inspector | None:
    if file.path.endswith(".safetensors"):
        return SafetensorsInspector(file.path, file.size_bytes)
    if file.path.endswith(".json"):
        return JsonInspector(file.path, file.size_bytes)
    return None


def _read_through(store: ObjectStore, folder: str, file: StoredFile, inspector: Inspector | None) -> list[Fault]:
    digest = hashlib.sha256()
    buffer = bytearray(_CHUNK_BYTES)
    view = memoryview(buffer)
    total = 0
    try:
        with store.open(f"{folder}/{file.path}") as stream:
            while num_bytes := stream.readinto(buffer):  # type: ignore[attr-defined]
                chunk = view[:num_bytes]
                digest.update(chunk)
                if inspector is not None:
                    inspector.feed(chunk)
                total += num_bytes
    except ObjectNotFound:
        return [Fault(file.path, "disappeared while it was being read")]
    except OSError as error:
        if error.errno == errno.EIO:  # a bad sector is damage; anything else says nothing about the checkpoint
            return [Fault(file.path, "cannot be read: the disk reports an error", total)]
        where = store.uri_of(f"{folder}/{file.path}")
        raise Transient("StorageNotAnswering", f"reading {where} broke off: {error}", "check the storage") from error
    if total != file.size_bytes:
        return [Fault(file.path, "changed while it was being read", total, None, f"{file.size_bytes} bytes",
                      f"{total} bytes")]  # fmt: skip
    faults = inspector.finish() if inspector is not None else []
    if digest.hexdigest() != file.sha256:
        faults.insert(0, Fault(file.path, "SHA-256 differs", None, None, file.sha256, digest.hexdigest()))
    return faults
