"""Brings a checkpoint to this machine, every byte proven against its manifest; in place where it lies here already."""

import hashlib
import shutil
import threading
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path

from components.contracts.checkpoint import CheckpointManifest
from components.contracts.dataset import StoredFile
from components.contracts.layout import checkpoint_manifest_key
from components.errors import BadInput, Interrupted, NodeUnfit, VerificationFailed
from components.integrity.safe_path import MANIFEST_NAME, fault_of_path
from components.storage.base import ObjectStore, key_parts

_NUM_CONNECTIONS = 4
_CHUNK_BYTES = 1 << 20


def fetch_checkpoint(store: ObjectStore, *, folder: str, into: Path, cancelled: threading.Event) -> Path:
    """The folder on this machine with the files of the checkpoint in `folder` (a key), and its manifest.

    It is `into/<folder>`, complete or absent; one that is there already was proven when it came.
    Raises VerificationFailed when a file is not what the manifest says, ObjectNotFound, NodeUnfit (disk), Interrupted
    once `cancelled`, and what the store raises.
    """
    in_place = store.local_path(folder)
    if in_place is not None:
        return in_place
    final = into.joinpath(*key_parts(folder))
    if final.is_dir():
        return final
    data = store.read(checkpoint_manifest_key(folder))
    manifest = CheckpointManifest.from_bytes(data, where=store.uri_of(checkpoint_manifest_key(folder)))
    unsafe = [file.path for file in manifest.files if fault_of_path(file.path)]
    if unsafe:
        raise BadInput("UnusableFiles", f"the manifest of {store.uri_of(folder)} names {unsafe[0]!r}", "")
    part = final.with_name(f".{final.name}.part")
    try:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        _Fetch(store, folder, part, cancelled).all(manifest.files)
        (part / MANIFEST_NAME).write_bytes(data)
        part.rename(final)
    except OSError as error:
        seen = f"cannot keep {store.uri_of(folder)} in {final}: {error.strerror or error}"
        raise NodeUnfit("NodeRefused", seen, "free space on that disk") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return final


class _Fetch:
    """Some files at once; the first trouble ends the others."""

    def __init__(self, store: ObjectStore, folder: str, part: Path, cancelled: threading.Event) -> None:
        self._store, self._folder, self._part, self._cancelled = store, folder, part, cancelled
        self._failed = threading.Event()

    def all(self, files: tuple[StoredFile, ...]) -> None:
        pool = ThreadPoolExecutor(_NUM_CONNECTIONS, "fetch")
        try:
            done, _ = wait([pool.submit(self._one, file) for file in files], return_when=FIRST_EXCEPTION)
            for future in done:
                future.result()
        finally:
            self._failed.set()
            pool.shutdown(wait=True, cancel_futures=True)

    def _one(self, file: StoredFile) -> None:
        path, key = self._part / file.path, f"{self._folder}/{file.path}"
        path.parent.mkdir(parents=True, exist_ok=True)
        found = ""
        for _ in range(2):  # a bit may flip on the way
            found = self._copy(key, path)
            if found == file.sha256:
                return
        seen = f"{self._store.uri_of(key)} arrives with SHA-256 {found}, expected is {file.sha256}"
        raise VerificationFailed("CheckpointDamaged", seen, "`verify` it; an older one can be resumed from")

    def _copy(self, key: str, path: Path) -> str:
        digest = hashlib.sha256()
        with self._store.open(key) as stream, path.open("wb") as file:
            while chunk := stream.read(_CHUNK_BYTES):
                if self._cancelled.is_set() or self._failed.is_set():
                    raise Interrupted("FetchCancelled", "the checkpoint is not needed any more")
                digest.update(chunk)
                file.write(chunk)
        return digest.hexdigest()
