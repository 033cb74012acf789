"""Copy a data version into a folder of its own: numbered names, the sidecars of other loaders, every byte checked.

`shard-000000.tar … shard-000123.tar`, so that `shard-{000000..000123}.tar` names them all; `.bin`/`.idx` pairs alike.
"""

import hashlib
import os
import shutil
import uuid
from pathlib import Path

from components.contracts.dataset import Shard, StoredFile
from components.contracts.layout import data_version_folder
from components.dataset.sidecars import sidecars
from components.errors import BadInput, VerificationFailed
from components.runtime.log import Log
from components.shard.progress import Progress
from components.shard.verify import manifest_faults, read_manifest
from components.storage.base import ObjectStore, StorageError

_READ_BYTES = 1 << 20


def export_version(store: ObjectStore, version: str, *, to: Path, log: Log) -> Path:
    """Make the folder `to`, complete or not at all. Raises BadInput when something is there, VerificationFailed."""
    manifest = read_manifest(store, version)
    if to.exists():
        raise BadInput("FolderExists", f"{to} exists", "name a folder that does not")
    faults = [str(fault) for fault in manifest_faults(store, manifest, version, "digests")]
    if faults:
        raise VerificationFailed(
            "DataDamaged", f"{version} is not what its manifest says:\n  " + "\n  ".join(faults),
            "delete what is damaged beside the manifest, or the manifest, and run merge of its plan again",
        )  # fmt: skip
    unfinished = to.parent / f".tmp-{uuid.uuid4().hex}"
    try:
        unfinished.mkdir(parents=True)
        progress = Progress(log, "shards copied", total=len(manifest.shards))
        shards = []
        for shard in manifest.shards:
            shards.append(_copy(store, version, shard, unfinished))
            progress.add(num_bytes=sum(file.size_bytes for file in shard.files))
        made = manifest.model_copy(update={"shards": tuple(shards), "quarantine": ()})
        for name, data in {**sidecars(made), "manifest.json": made.to_bytes()}.items():
            (unfinished / name).write_bytes(data)
        os.rename(unfinished, to)
    except OSError as error:
        raise StorageError(
            "FolderRefused", f"cannot write {to}: {error.strerror or error}", "free space, or name another"
        ) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    log.info(f"{version} copied to {to}: {len(shards)} shards, {made.size_bytes} bytes")
    return to


def _copy(store: ObjectStore, version: str, shard: Shard, folder: Path) -> Shard:
    files = []
    for file in shard.files:
        name = f"shard-{shard.index:06d}{os.path.splitext(file.path)[1]}"
        digest = hashlib.sha256()
        with store.open(_key(version, file)) as source, (folder / name).open("xb") as target:
            while data := source.read(_READ_BYTES):
                digest.update(data)
                target.write(data)
            target.flush()
            os.fsync(target.fileno())
        if digest.hexdigest() != file.sha256:
            where = store.uri_of(_key(version, file))
            raise VerificationFailed(
                "DataDamaged", f"{where}: expected sha256 {file.sha256}, found {digest.hexdigest()}",
                "verify says where it is damaged",
            )  # fmt: skip
        files.append(file.model_copy(update={"path": name}))
    return shard.model_copy(update={"files": tuple(files)})


def _key(version: str, file: StoredFile) -> str:
    return os.path.normpath(f"{data_version_folder(version)}/{file.path}")
