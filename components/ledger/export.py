"""Copies a checkpoint out of the storage for people downstream: proven byte by byte, complete or not there at all."""

import hashlib
import json
import os
import secrets
import shutil
import struct
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

from components.contracts.checkpoint import CheckpointManifest
from components.contracts.dataset import StoredFile
from components.contracts.layout import checkpoint_manifest_key
from components.errors import ArgosyError, BadInput, EnvironmentUnfit, VerificationFailed
from components.integrity.safe_path import MANIFEST_NAME, fault_of_path
from components.integrity.verify import read_manifest
from components.ledger.state import CheckpointEntry
from components.storage.base import ObjectStore

ExportFormat = Literal["plain", "safetensors"]
"""plain: the files as the program wrote them. safetensors: only those, and an index over them if there are several."""

_CHUNK_BYTES = 1 << 20
_MAX_HEADER_BYTES = 100_000_000
_INDEX = "model.safetensors.index.json"


def export_checkpoint(
    store: ObjectStore, entry: CheckpointEntry, into: Path, *, form: ExportFormat, only: Sequence[str] = (),
    on_file: Callable[[StoredFile], None] = lambda file: None,
) -> CheckpointManifest:  # fmt: skip
    """Copy the files of `entry` that match `only` (patterns; all when empty) to the new folder `into`.

    SHA-256 is taken while copying; a whole plain copy has the manifest beside its files. Raises BadInput when `into`
    exists or nothing matches, VerificationFailed when a file is not what was committed; then nothing is left behind.
    Returns the manifest, with the files that were copied.
    """
    if into.exists() or into.is_symlink():
        raise BadInput("FolderExists", f"{into} exists", "name a folder that does not, nothing is overwritten")
    manifest, faults = read_manifest(store, entry.folder, entry.manifest_sha256)
    if manifest is None:
        raise VerificationFailed("CheckpointDamaged", f"{entry.checkpoint}: {faults[0]}", "export another one")
    files = _chosen(manifest, form, only)
    staging = into.parent / f".{into.name}.{secrets.token_hex(4)}.part"
    try:
        staging.mkdir(parents=True)
        for file in files:
            _copy(store, f"{entry.folder}/{file.path}", staging / file.path, file)
            on_file(file)
        if form == "safetensors" and len(files) > 1:
            _write(staging / _INDEX, _index(staging, files))
        if len(files) == len(manifest.files) and form == "plain":
            _write(staging / MANIFEST_NAME, store.read(checkpoint_manifest_key(entry.folder)))
        _sync(staging)
        # Not `replace`: a folder that came to be there meanwhile, unless empty, makes this fail.
        staging.rename(into)
        _sync(into.parent)
    except OSError as error:
        seen = f"cannot write {into}: {error.strerror or error}"
        raise EnvironmentUnfit("ExportRefused", seen, "free space there, or choose another place") from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return manifest.model_copy(update={"files": files})


def _chosen(manifest: CheckpointManifest, form: ExportFormat, only: Sequence[str]) -> tuple[StoredFile, ...]:
    unsafe = next((file.path for file in manifest.files if fault_of_path(file.path)), None)
    if unsafe is not None:
        raise BadInput("UnusableFiles", f"{manifest.checkpoint} has a file named {unsafe!r}", "it cannot be exported")
    files = manifest.files
    if form == "safetensors":
        files = tuple(file for file in files if file.path.endswith(".safetensors"))
        if not files:
            endings = ", ".join(sorted({Path(file.path).suffix or Path(file.path).name for file in manifest.files}))
            raise BadInput(
                "NoSafetensors", f"{manifest.checkpoint} has no .safetensors files, only {endings}",
                "export it with --format plain; converting would mean to unpickle it",
            )  # fmt: skip
    chosen = tuple(file for file in files if not only or any(fnmatchcase(file.path, pattern) for pattern in only))
    if not chosen:
        names = ", ".join(file.path for file in files[:10])
        raise BadInput("NothingMatches", f"no file matches {' '.join(only)}", f"there are {names}")
    return chosen


def _copy(store: ObjectStore, key: str, path: Path, file: StoredFile) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    try:
        with store.open(key) as stream, path.open("xb") as copy:
            while chunk := stream.read(_CHUNK_BYTES):
                digest.update(chunk)
                copy.write(chunk)
            copy.flush()
            os.fsync(copy.fileno())
    except ArgosyError as error:
        if error.reason != "ObjectNotFound":
            raise
        raise VerificationFailed("CheckpointDamaged", f"{file.path} is missing", "`checkpoints verify` it") from error
    if digest.hexdigest() != file.sha256:
        raise VerificationFailed(
            "CheckpointDamaged", f"{store.uri_of(key)} has SHA-256 {digest.hexdigest()}, committed was {file.sha256}",
            "`checkpoints verify` it, and export an older one",
        )  # fmt: skip


def _index(folder: Path, files: Sequence[StoredFile]) -> bytes:
    """What loaders of sharded safetensors read: which file holds which tensor, and how large all tensors are."""
    weight_map: dict[str, str] = {}
    total_size = 0
    for file in files:
        names, num_bytes = _tensors(folder / file.path)
        total_size += num_bytes
        for name in names:
            if name in weight_map:
                raise BadInput(
                    "TensorTwice", f"{weight_map[name]} and {file.path} both hold a tensor {name!r}",
                    "choose files of one model with --only, for example --only 'model*'",
                )  # fmt: skip
            weight_map[name] = file.path
    index = {"metadata": {"total_size": total_size}, "weight_map": weight_map}
    return json.dumps(index, indent=2, sort_keys=True).encode()


def _tensors(path: Path) -> tuple[list[str], int]:
    """Names, and the bytes of all of them."""
    with path.open("rb") as stream:
        (length,) = struct.unpack("<Q", stream.read(8).ljust(8, b"\0"))
        if length > _MAX_HEADER_BYTES:
            raise VerificationFailed("CheckpointDamaged", f"{path.name}: its header claims {length} bytes")
        try:
            header = json.loads(stream.read(length))
            names = [name for name in header if name != "__metadata__"]
            offsets = [header[name]["data_offsets"] for name in names]
            return names, sum(int(end) - int(begin) for begin, end in offsets)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            seen = f"{path.name} has no readable safetensors header"
            raise VerificationFailed("CheckpointDamaged", seen, "`checkpoints verify` it") from error


def _write(path: Path, data: bytes) -> None:
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
