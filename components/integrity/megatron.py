"""Honours the `integrity.json` that Megatron writes beside a checkpoint: SHA-256 of every file, as it saw them.

{"algorithm": "sha256", "files": {"__0_0.distcp": "<hex>", "common.pt": "<hex>", ...}}
"""

import json
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from components.integrity.fault import Fault
from components.integrity.one_pass import Wanted
from components.storage.base import ObjectNotFound, ObjectStore

INTEGRITY_NAME = "integrity.json"
MAX_INTEGRITY_BYTES = 16 << 20


def read_integrity(data: bytes, *, path: str) -> tuple[dict[str, str], list[Fault]]:
    """({file relative to the folder of `path`: SHA-256}, what is wrong with the document)."""
    if len(data) > MAX_INTEGRITY_BYTES or data.count(b"{") + data.count(b"[") > 1000:
        return {}, [Fault(path, "is no list of digests")]
    try:
        value: Any = json.loads(data)
    except (ValueError, RecursionError):
        return {}, [Fault(path, "is not JSON")]
    files = value.get("files") if isinstance(value, dict) else None
    if not isinstance(files, dict) or not all(isinstance(digest, str) for digest in files.values()):
        return {}, [Fault(path, "is no list of digests")]
    algorithm = value.get("algorithm")
    if algorithm != "sha256":
        return {}, [Fault(path, "uses an algorithm that is not read here", None, None, "sha256", str(algorithm)[:50])]
    return files, []


def integrity_faults(store: ObjectStore, folder: str, files: Sequence[Wanted]) -> Iterator[Fault]:
    """Where an `integrity.json` among `files` speaks of other bytes than their recorded SHA-256."""
    digests = {file.path: file.sha256 for file in files}
    for path in digests:
        if posixpath.basename(path) == INTEGRITY_NAME:
            said, faults = read_integrity(_read(store, f"{folder}/{path}" if folder else path), path=path)
            yield from faults
            yield from _differences(said, posixpath.dirname(path), digests, path)


def _differences(said: Mapping[str, str], under: str, digests: Mapping[str, str], path: str) -> Iterator[Fault]:
    for name in sorted(said):
        file = posixpath.normpath(posixpath.join(under, name))
        if file not in digests:
            yield Fault(path, f"names {name[:200]!r}, which is missing")
        elif digests[file] and digests[file] != said[name].lower():
            yield Fault(file, f"SHA-256 differs from {INTEGRITY_NAME}", None, None, said[name][:64], digests[file])


def _read(store: ObjectStore, key: str) -> bytes:
    try:
        with store.open(key) as stream:
            return stream.read(MAX_INTEGRITY_BYTES + 1)
    except ObjectNotFound:
        return b""
