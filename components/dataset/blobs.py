"""The bytes of inputs: files of this machine, or objects of a store, read in ranges and checked against the plan.

A read either gives exactly the bytes asked for, of the input the plan saw, or says why not: `Changed` when the input is
gone or another one, `Unreadable` when it is there and refuses.
"""

import io
import os
import posixpath
import stat
import sysconfig
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from components.dataset.inputs import Input
from components.dataset.witness import NewestChange
from components.errors import BadInput, Problem, Transient
from components.storage.base import ObjectNotFound, ObjectStore, open_store

STDLIB = "python:stdlib"
_READ_ONLY = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
"""Without waiting for whoever writes into a pipe that took a file's place."""
READ_BYTES = 4 << 20
"""The most that is asked for at once: what a reader holds in memory."""
REMOTE_IN_FLIGHT = 32
"""Reads that wait for a store side by side. Small objects cost a round trip each, not their bytes."""


class Changed(Exception):
    """The input is gone, or differs from what the plan saw."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


class Unreadable(Exception):
    """The input exists and cannot be read, or not as what it should be."""

    def __init__(self, path: str, reason: str, offset: int | None = None) -> None:
        super().__init__(f"{path}: {reason}")
        self.path, self.reason, self.offset = path, reason, offset


class Blobs(Protocol):
    """Where the inputs of a plan lie."""

    in_flight: int
    """How many reads side by side pay off; 1: none."""

    def read(self, item: Input, start: int, end: int) -> bytes:
        """The bytes [start, end) of the input. Raises Changed, Unreadable, and what the store raises."""

    def uri_of(self, path: str) -> str:
        """What people call the input."""


def open_blobs(root: str, *, is_manifest: bool = False, newest_change: int | None = None) -> Blobs:
    """The inputs below a plan's root. Plain files whose inode is newer than `newest_change` (ns) are changed ones.
    Raises BadInput for a store that is not known.
    """
    if is_manifest:
        return ManifestBlobs(root, newest_change)
    if root == STDLIB:
        return LocalFiles(sysconfig.get_path("stdlib"), newest_change)
    if is_uri(root):
        return StoredObjects(root)
    return LocalFiles(root, newest_change)


def is_uri(text: str) -> bool:
    return "://" in text


class LocalFiles:
    """Files below a folder; absolute paths stand for themselves."""

    in_flight = 1

    def __init__(self, folder: str, newest_change: int | None = None) -> None:
        self._start = folder.rstrip("/") + "/"
        self._newest_change = newest_change or 1 << 63

    def read(self, item: Input, start: int, end: int) -> bytes:
        path = item.path if item.path.startswith("/") else self._start + item.path
        try:
            descriptor = os.open(path, _READ_ONLY)  # io.open costs several times as much
        except FileNotFoundError as error:
            raise Changed(Problem(path, "is gone since the plan was made")) from error
        except OSError as error:
            raise Unreadable(item.path, error.strerror or str(error), start) from error
        try:
            data = os.pread(descriptor, end - start, start)
            while len(data) < end - start and (
                more := os.pread(descriptor, end - start - len(data), start + len(data))
            ):
                data += more
            status = os.fstat(descriptor)  # after the last byte: a change while we read shows too
        except OSError as error:
            raise Unreadable(item.path, error.strerror or str(error), start) from error
        finally:
            os.close(descriptor)
        if status.st_size != item.size or len(data) < end - start:
            raise Changed(Problem(path, f"had {item.size} bytes when the plan was made, now {status.st_size}"))
        if (tag_of(status) if isinstance(item.tag, str) else status.st_mtime_ns) != item.tag:
            raise Changed(Problem(path, "was modified since the plan was made"))
        if status.st_ctime_ns > self._newest_change and not isinstance(item.tag, str):
            seen = "was written, or given another owner, mode or link, since the plan was made, and has its old time"
            raise Changed(Problem(path, seen, "if it was written, touch it: by size and time it is the old one"))
        return data

    def uri_of(self, path: str) -> str:
        return path if path.startswith("/") else self._start + path


def tag_of(status: os.stat_result) -> str:
    """The tag of an object that is a file all nodes mount: no program can set the second time back.

    Not for files that each node may have a copy of, as in an image: these differ in it.
    """
    return f"{status.st_mtime_ns}-{status.st_ctime_ns}"


@runtime_checkable
class RangedStore(Protocol):
    """A store that can give a part of an object by itself."""

    def read_range(self, key: str, start: int, end: int, *, version: str = "") -> bytes: ...


class StoredObjects:
    """Objects below a uri such as `s3://bucket/prefix`. Paths that are uris themselves stand for themselves."""

    def __init__(self, root: str, *, open: Callable[[str], ObjectStore] = open_store) -> None:
        self.in_flight = REMOTE_IN_FLIGHT
        self._root, self._open = root, open
        self._files = LocalFiles("/")
        self._stores = dict[str, ObjectStore]()

    def read(self, item: Input, start: int, end: int) -> bytes:
        store, key = self.place(item.path)
        if item.tag and (path := store.local_path(key)) is not None:
            return self._files.read(item._replace(path=str(path)), start, end)
        try:
            data = read_range(store, key, start, end, version=str(item.tag))
        except Transient as error:
            if error.reason != "ObjectChanged":
                raise
            raise Changed(Problem(store.uri_of(key), "was written again since the plan was made")) from error
        except ObjectNotFound as error:
            raise Changed(Problem(store.uri_of(key), "is gone since the plan was made")) from error
        if len(data) != end - start:
            found = store.find(key)
            now = "it is gone" if found is None else f"now {found.size_bytes}"
            raise Changed(Problem(store.uri_of(key), f"had {item.size} bytes when the plan was made, {now}"))
        return data

    def uri_of(self, path: str) -> str:
        return path if is_uri(path) else f"{self._root}/{path}"

    def place(self, path: str) -> tuple[ObjectStore, str]:
        """The store of a path, and its key there."""
        base, key = split_uri(self.uri_of(path))
        if base not in self._stores:
            self._stores[base] = self._open(base)
        return self._stores[base], key


class ManifestBlobs:
    """What a manifest names: files relative to its folder, absolute paths, and uris."""

    in_flight = REMOTE_IN_FLIGHT

    def __init__(self, folder: str, newest_change: int | None = None) -> None:
        self._is_remote = is_uri(folder)
        self._files, self._objects = LocalFiles(folder, newest_change), StoredObjects(folder)
        self.newest, self._lock = NewestChange(), threading.Lock()

    def read(self, item: Input, start: int, end: int) -> bytes:
        return (self._objects if self._is_stored(item.path) else self._files).read(item, start, end)

    def uri_of(self, path: str) -> str:
        return (self._objects if self._is_stored(path) else self._files).uri_of(path)

    def look(self, path: str) -> tuple[int, int | str]:
        """Size and tag of an input. Raises Unreadable."""
        try:
            if not self._is_stored(path):
                file = self._files.uri_of(path)
                status = os.stat(file)
                if not stat.S_ISREG(status.st_mode):
                    raise Unreadable(path, "is a folder, pipe, socket or device, not a file")
                with self._lock:
                    self.newest.saw(file, status.st_ctime_ns)
                return status.st_size, status.st_mtime_ns
            store, key = self._objects.place(path)
            found = store.find(key)
            if found is not None and (local := store.local_path(key)) is not None:
                return found.size_bytes, tag_of(os.stat(local))
        except OSError as error:
            raise Unreadable(path, error.strerror or str(error)) from error
        if found is None:
            raise Unreadable(path, "No such object")
        return found.size_bytes, found.version

    def _is_stored(self, path: str) -> bool:
        return is_uri(path) or (self._is_remote and not path.startswith("/"))


def join_uri(base: str, key: str) -> str:
    """The uri that `split_uri` took apart."""
    return f"{base}{key}" if base.endswith("/") else f"{base}/{key}"


def split_uri(uri: str) -> tuple[str, str]:
    """The root of the store a uri lies in, and the key there. Raises BadInput where there is no key."""
    scheme, _, rest = uri.partition("://")
    bucket, _, key = rest.partition("/")
    if not key.strip("/"):
        raise BadInput(
            "NoPrefix", f"{uri} is everything the store has", f"name a prefix, such as {scheme}://{bucket}/corpus"
        )
    return f"{scheme}://{bucket or '/'}", posixpath.normpath(key.strip("/"))


def read_range(store: ObjectStore, key: str, start: int, end: int, *, version: str = "") -> bytes:
    """The bytes [start, end) of an object, fewer where it ends before. Raises ObjectNotFound."""
    if end <= start:
        return b""
    local = store.local_path(key)
    if local is not None:
        return _range_of(local, start, end)
    if isinstance(store, RangedStore):
        return store.read_range(key, start, end, version=version)
    with store.open(key) as stream:
        while start and (skipped := len(stream.read(min(start, READ_BYTES)))):
            start, end = start - skipped, end - skipped
        return stream.read(end - start)


def _range_of(path: Path, start: int, end: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(start)
            return file.read(end - start)
    except FileNotFoundError as error:
        raise ObjectNotFound("ObjectNotFound", f"{path} does not exist") from error
    except OSError as error:
        raise Unreadable(str(path), error.strerror or str(error), start) from error


class BlobFile(io.RawIOBase):
    """An input as a file that can be read anywhere; for libraries that want one."""

    def __init__(self, blobs: Blobs, item: Input) -> None:
        self._blobs, self._item, self._position = blobs, item, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._item.size}[whence]
        self._position = max(0, start + offset)
        return self._position

    def read(self, size: int = -1) -> bytes:
        """As much as is asked for, unless the file ends before; not copied."""
        left = max(0, self._item.size - self._position)
        size = left if size < 0 else min(size, left)
        data = self._blobs.read(self._item, self._position, self._position + size) if size else b""
        self._position += len(data)
        return data

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)
