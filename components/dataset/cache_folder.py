"""The folder of a node's cache: where things lie in it, when a blob is whole, and the locks of all who share it.

    blobs/<aa>/<sha256>     whole and verified; only ever renamed into place
    filling/<sha256>.part   being downloaded by whoever holds its lock
    leases/<name>.json      what a gang uses; alive as long as its lock is held
    views/<name>/…          the same files under the paths of a manifest, as hard links
    lock                    held for moments: while leases are made and blobs are removed

Every lock is the kernel's (`flock`): it ends with the process that holds it, however that ends, and it means the same
in every container of the machine, which a process id does not.
"""

import errno
import fcntl
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from components.errors import ArgosyError, BadInput, NodeUnfit, Transient

_DIGEST = re.compile(r"[0-9a-f]{64}")
_MARK_NS = 0
"""Modification time of a blob whose bytes were proven: whoever writes to it afterwards gives it another."""

_LOCK_SECONDS = 60.0
_PAUSE_SECONDS = 0.01


@dataclass(frozen=True)
class Blob:
    """One file in the cache."""

    sha256: str
    size_bytes: int
    used_ns: int
    """When it was last asked for, or read."""


class CacheFolder:
    """Paths and states below one root."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.blobs, self.filling = root / "blobs", root / "filling"
        self.leases, self.views = root / "leases", root / "views"

    def create(self) -> None:
        """Raises NodeUnfit when there cannot be such a folder."""
        with refusals(self.root):
            for folder in (self.blobs, self.filling, self.leases, self.views):
                folder.mkdir(parents=True, exist_ok=True)

    def blob(self, sha256: str) -> Path:
        """Raises BadInput for what is no digest: it would become a path."""
        if not _DIGEST.fullmatch(sha256):
            raise BadInput("BadDigest", f"{sha256!r} is no SHA-256", "run the shard stage again")
        return self.blobs / sha256[:2] / sha256

    def holds(self, sha256: str, size_bytes: int, *, now_ns: int) -> bool:
        """Whether the blob is there, whole and untouched since it was proven; if so, it counts as used now."""
        path = self.blob(sha256)
        try:
            found = path.stat()
            if found.st_size != size_bytes or found.st_mtime_ns != _MARK_NS:
                return False
            os.utime(path, ns=(now_ns, _MARK_NS))
        except FileNotFoundError:
            return False
        return True

    def admit(self, part: Path, sha256: str, *, now_ns: int) -> None:
        """Make a complete, proven and synced file the blob of that digest."""
        path = self.blob(sha256)
        path.parent.mkdir(exist_ok=True)
        part.chmod(0o444)
        os.utime(part, ns=(now_ns, _MARK_NS))
        part.replace(path)

    def present(self) -> dict[str, Blob]:
        """Every blob by its digest."""
        found = {}
        for folder in os.scandir(self.blobs):
            for entry in os.scandir(folder.path) if folder.is_dir() else ():
                with suppress(FileNotFoundError):
                    status = entry.stat()
                    found[entry.name] = Blob(entry.name, status.st_size, status.st_atime_ns)
        return found

    def free_bytes(self) -> tuple[int, int]:
        """Bytes free for us on the disk, and how many it has."""
        status = os.statvfs(self.root)
        return status.f_bavail * status.f_frsize, status.f_blocks * status.f_frsize

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Alone among all who share the folder. Raises Transient when somebody keeps it for a minute."""
        descriptor = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT, 0o666)
        try:
            until = time.monotonic() + _LOCK_SECONDS
            while not try_lock(descriptor):
                if time.monotonic() > until:
                    seen = f"{self.root / 'lock'} has been held for {_LOCK_SECONDS:g} s"
                    raise Transient("CacheLocked", seen, "see who has it open (fuser, lslocks): it may be suspended")
                time.sleep(_PAUSE_SECONDS)
            yield
        finally:
            os.close(descriptor)


def try_lock(descriptor: int) -> bool:
    """Take the lock of an open file unless somebody has it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_same_file(descriptor: int, path: Path) -> bool:
    """Whether the open file still has that name."""
    try:
        named = path.stat()
    except FileNotFoundError:
        return False
    opened = os.fstat(descriptor)
    return (opened.st_dev, opened.st_ino) == (named.st_dev, named.st_ino)


@contextmanager
def refusals(root: Path) -> Iterator[None]:
    """What the file system refuses inside, told as what it means for the cache."""
    try:
        yield
    except OSError as error:
        raise _refused(root, error) from error


def _refused(root: Path, error: OSError) -> ArgosyError:
    seen = f"cannot use the cache {root}: {error.strerror or error} ({error.filename or root})"
    fix = {
        errno.ENOSPC: "free space on that disk, or set ARGOSY_CACHE to a folder on another",
        errno.EDQUOT: "the quota is used up: free space, or set ARGOSY_CACHE to a folder on another disk",
        errno.ENOLCK: "set ARGOSY_CACHE to a folder on a disk of this node",
        errno.EOPNOTSUPP: "set ARGOSY_CACHE to a folder on a disk of this node",
    }.get(error.errno or 0, f"set ARGOSY_CACHE to a folder that uid {os.getuid()} may write")
    return NodeUnfit("CacheUnusable", seen, fix)
