"""`file://` storage: objects are files, atomic by link and rename, durable by fsync.

`link()` fails when the name exists, also on NFS, which makes it the conditional write. Unfinished files have no name
where the file system allows it; elsewhere, and for the moment of a replacement, they are called `.tmp-*` and are
invisible to `list`.
"""

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from components.errors import Transient
from components.storage import past_cache
from components.storage.base import UNFINISHED, AlreadyExists, ObjectInfo, ObjectNotFound, StorageError, key_parts
from components.storage.unfinished import is_abandoned, unfinished_name

_TRANSIENT = (errno.ESTALE, errno.ETIMEDOUT, errno.EINTR, errno.EAGAIN)
_FOLDER_TRIES = 10


class LocalStore:
    """A folder of this machine, or one that all nodes mount."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def uri(self) -> str:
        return f"file://{self.root}"

    def create(self, key: str, data: bytes | bytearray) -> None:
        self._write(key, lambda file: _write_all(file, data), exclusive=True)

    def create_from(self, key: str, source: Path) -> str:
        digest = hashlib.sha256()

        self._write(key, lambda file: past_cache.copy(source, file, digest.update), exclusive=True)
        return digest.hexdigest()

    def replace(self, key: str, data: bytes) -> None:
        self._write(key, lambda file: _write_all(file, data), exclusive=False)

    def read(self, key: str) -> bytes:
        with self.open(key) as file:
            return file.read()

    def open(self, key: str) -> BinaryIO:
        path = self._path(key)
        try:
            return path.open("rb")
        except FileNotFoundError as error:
            raise ObjectNotFound("ObjectNotFound", f"{path} does not exist") from error
        except OSError as error:
            raise self._refused("read", path, error) from error

    def find(self, key: str) -> ObjectInfo | None:
        path = self._path(key)
        try:
            return ObjectInfo(key, path.stat().st_size) if path.is_file() else None
        except OSError as error:
            raise self._refused("read", path, error) from error

    def list(self, prefix: str, *, after: str = "") -> Iterator[ObjectInfo]:
        yield from self._walk(self._path(prefix), prefix.rstrip("/"), after)

    def delete(self, key: str) -> None:
        path = self._path(key)
        try:
            path.unlink(missing_ok=True)
        except NotADirectoryError:
            return
        except OSError as error:
            raise self._refused("delete", path, error) from error
        self._remove_empty_folders(path.parent)

    def sweep(self, prefix: str) -> int:
        """Remove what writers that are provably gone left unfinished below `prefix`; returns how many files."""
        count = 0
        for folder, _, names in os.walk(self._path(prefix)):
            for path in (Path(folder, name) for name in names if is_abandoned(name)):
                try:
                    path.unlink(missing_ok=True)
                except OSError as error:
                    raise self._refused("delete", path, error) from error
                count += 1
                self._remove_empty_folders(path.parent)
        return count

    def uri_of(self, key: str) -> str:
        return f"file://{self._path(key)}"

    def local_path(self, key: str) -> Path | None:
        return self._path(key)

    def _path(self, key: str) -> Path:
        return self.root.joinpath(*key_parts(key))

    def _write(self, key: str, fill: Callable[[BinaryIO], None], *, exclusive: bool) -> None:
        path = self._path(key)
        temporary = path.parent / unfinished_name()
        try:
            try:
                file, is_nameless = self._open_unfinished(temporary)
                with file:
                    fill(file)
                    file.flush()
                    os.fsync(file.fileno())
                    if is_nameless:
                        self._name(file, path if exclusive else temporary)
                if not exclusive:
                    os.replace(temporary, path)
                elif not is_nameless:
                    os.link(temporary, path)
            finally:
                temporary.unlink(missing_ok=True)
            _sync_folder(path.parent)
        except FileExistsError as error:
            raise AlreadyExists("AlreadyExists", f"{path} exists already") from error
        except OSError as error:
            raise self._refused("write", path, error) from error

    def _open_unfinished(self, temporary: Path) -> tuple[BinaryIO, bool]:
        """A new file, and whether it has no name: where the file system can, a killed writer leaves nothing behind."""
        for tries_left in reversed(range(_FOLDER_TRIES)):
            _make_folders(temporary.parent)
            try:
                descriptor = _open_nameless(temporary.parent)
                if descriptor is None:
                    return temporary.open("xb", buffering=0), False
                return os.fdopen(descriptor, "wb", buffering=0), True
            except FileNotFoundError:
                if not tries_left:  # a concurrent delete removed the folder while it was empty
                    raise
        raise AssertionError("unreachable")

    def _name(self, file: BinaryIO, path: Path) -> None:
        """Give a nameless file its name. Raises FileExistsError."""
        for tries_left in reversed(range(_FOLDER_TRIES)):
            try:
                # Python follows the link in /proc only when it is given a folder to start from; this one is not used.
                os.link(f"/proc/self/fd/{file.fileno()}", path, src_dir_fd=file.fileno(), follow_symlinks=True)
                return
            except FileNotFoundError:
                if not tries_left:
                    raise
                _make_folders(path.parent)  # nothing in it had a name yet, so a concurrent delete took it as empty

    def _walk(self, folder: Path, prefix: str, after: str) -> Iterator[ObjectInfo]:
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name + ("/" if entry.is_dir() else ""))
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise self._refused("list", folder, error) from error
        for entry in entries:
            if entry.name.startswith(UNFINISHED):
                continue
            key = f"{prefix}/{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                if f"{key}/" > after or after.startswith(f"{key}/"):
                    yield from self._walk(Path(entry.path), key, after)
            elif key > after and entry.is_file():
                try:
                    yield ObjectInfo(key, entry.stat().st_size)
                except FileNotFoundError:
                    continue  # deleted between the listing and the look

    def _remove_empty_folders(self, folder: Path) -> None:
        while folder != self.root and self.root in folder.parents:
            try:
                folder.rmdir()
            except OSError:
                return
            folder = folder.parent

    def _refused(self, verb: str, path: Path, error: OSError) -> StorageError | Transient:
        seen = f"cannot {verb} {path}: {error.strerror or error}"
        if error.errno in _TRANSIENT:
            return Transient("StorageNotAnswering", seen, "check the file server")
        fix = {
            errno.ENOSPC: "free space on that disk, or point storage at another",
            errno.EDQUOT: "the quota is used up: free space, or point storage at another disk",
            errno.EROFS: "the file system is read-only: remount it, or point storage at another",
            errno.EACCES: f"give uid {os.getuid()} access, or point storage at another folder",
            errno.EPERM: f"give uid {os.getuid()} access, or point storage at another folder",
            errno.ENOTDIR: "a file stands where a folder should be",
        }.get(error.errno or 0, "check the storage folder")
        return StorageError("StorageRefused", seen, fix)


def _make_folders(folder: Path) -> None:
    """Mkdir -p that makes each new folder's name durable in its parent, beside others that remove empty folders."""
    for tries_left in reversed(range(_FOLDER_TRIES)):
        try:
            _make_missing(folder)
            break
        except FileNotFoundError:
            if not tries_left:  # a concurrent delete took a folder as empty, again and again
                raise


def _make_missing(folder: Path) -> None:
    missing = []
    while not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    for path in reversed(missing):
        # Not mkdir(exist_ok=True): when another made the folder and a third removed it, that raises FileExistsError,
        # which to our callers means that the object is there.
        try:
            path.mkdir()
        except FileExistsError:
            # One look: between two a third may remove the folder and a fourth make it again.
            with contextlib.suppress(FileNotFoundError):
                if not stat.S_ISDIR(path.stat().st_mode):
                    raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path)) from None
        _sync_folder(path.parent)


def _open_nameless(folder: Path) -> int | None:
    try:
        return os.open(folder, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o666)
    except (AttributeError, OSError) as error:  # not Linux, or a file system without it, such as NFS
        if isinstance(error, FileNotFoundError):
            raise
        return None


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_all(file: BinaryIO, data: bytes | bytearray) -> None:
    left = memoryview(data)
    while left:
        left = left[file.write(left) :]
