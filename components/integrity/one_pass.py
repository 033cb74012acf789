"""Reads a stored file once, from its first byte to its last: SHA-256 and everything an inspector looks for together."""

import errno
import hashlib
from dataclasses import dataclass
from threading import Event

from components.errors import Interrupted, Transient
from components.integrity.fault import Fault
from components.integrity.inspector import Inspector
from components.storage.base import ObjectNotFound, ObjectStore

_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class Wanted:
    """A file to look at, and what it should be. `path` is relative to the checkpoint's folder."""

    path: str
    size_bytes: int
    sha256: str = ""
    """Empty when nobody recorded one."""


def read_through(
    store: ObjectStore, folder: str, file: Wanted, inspector: Inspector | None, *, stop: Event | None = None
) -> list[Fault]:
    """Everything wrong with the bytes of `file`. Raises Transient when the store breaks off, Interrupted on `stop`."""
    digest = hashlib.sha256() if file.sha256 else None
    buffer = bytearray(_CHUNK_BYTES)
    view = memoryview(buffer)
    total = 0
    key = f"{folder}/{file.path}" if folder else file.path
    try:
        with store.open(key) as stream:
            while num_bytes := stream.readinto(buffer):  # type: ignore[attr-defined]
                chunk = view[:num_bytes]
                if digest is not None:
                    digest.update(chunk)
                if inspector is not None:
                    inspector.feed(chunk)
                total += num_bytes
                if stop is not None and stop.is_set():
                    raise Interrupted("Interrupted", f"reading {file.path} was broken off")
    except ObjectNotFound:
        return [Fault(file.path, "disappeared while it was being read")]
    except OSError as error:
        if error.errno == errno.EIO:  # a bad sector is damage; anything else says nothing about the checkpoint
            return [Fault(file.path, "cannot be read: the disk reports an error", total)]
        where = store.uri_of(key)
        raise Transient("StorageNotAnswering", f"reading {where} broke off: {error}", "check the storage") from error
    if total != file.size_bytes:
        return [Fault(file.path, "changed while it was being read", total, None, f"{file.size_bytes} bytes",
                      f"{total} bytes")]  # fmt: skip
    faults = inspector.finish() if inspector is not None else []
    if digest is not None and digest.hexdigest() != file.sha256:
        faults.insert(0, Fault(file.path, "SHA-256 differs", None, None, file.sha256, digest.hexdigest()))
    return faults
