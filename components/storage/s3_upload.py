"""What is sent with a PUT: bytes or a file, its size and SHA-256 known beforehand, memory bounded."""

import base64
import hashlib
import io
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from components.errors import BadInput
from components.storage.base import StorageError

MAX_OBJECT_BYTES = 5 << 30
"""The most one PUT takes. Uploads in parts would have a checksum of parts instead of the file's."""

_CONTENT_TYPES = {".html": "text/html; charset=utf-8", ".json": "application/json", ".jsonl": "application/jsonl"}


class Upload:
    """Bytes in memory."""

    def __init__(self, data: bytes | bytearray) -> None:
        self._data = data
        self.size_bytes, self.sha256 = len(data), hashlib.sha256(data).hexdigest()

    def body(self) -> Any:
        """From the start; closed by the caller when it can be."""
        return self._data

    def require_unchanged(self) -> None:
        """Raises BadInput when it is no longer what was hashed."""

    def headers(self, key: str) -> dict[str, Any]:
        """Parameters of PutObject that describe it."""
        checksum = base64.b64encode(bytes.fromhex(self.sha256)).decode()
        kind = _CONTENT_TYPES.get(os.path.splitext(key)[1])
        named = {"ContentType": kind} if kind else {}
        return {"ContentLength": self.size_bytes, "ChecksumSHA256": checksum, **named}


class FileUpload(Upload):
    """A local file. It is read twice, since its digest goes first; whoever changes it meanwhile is told."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            with path.open("rb") as file:
                self._state = _State.of(file)
                if self._state.size_bytes > MAX_OBJECT_BYTES:
                    seen = f"{path} has {self._state.size_bytes} bytes; an object holds at most {MAX_OBJECT_BYTES}"
                    raise BadInput("ObjectTooLarge", seen, "write smaller files, for example one a rank")
                digest = hashlib.file_digest(file, "sha256")
        except OSError as error:
            raise _unreadable(path, error) from error
        self.size_bytes, self.sha256 = self._state.size_bytes, digest.hexdigest()
        self.require_unchanged()

    def body(self) -> "FileBody":
        try:
            return FileBody(self._path.open("rb"), self.size_bytes)
        except OSError as error:
            raise _unreadable(self._path, error) from error

    def require_unchanged(self) -> None:
        try:
            with self._path.open("rb") as file:
                is_same = _State.of(file) == self._state
        except OSError as error:
            raise _unreadable(self._path, error) from error
        if not is_same:
            raise BadInput("SourceChanged", f"{self._path} changed while it was being uploaded", "write it once")


@dataclass(frozen=True)
class _State:
    inode: int
    size_bytes: int
    modified_ns: int

    @classmethod
    def of(cls, file: BinaryIO) -> "_State":
        found = os.fstat(file.fileno())
        return cls(found.st_ino, found.st_size, found.st_mtime_ns)


class FileBody(io.RawIOBase):
    """The first `size_bytes` of an open file: one that grows must not send more than was announced."""

    def __init__(self, file: BinaryIO, size_bytes: int) -> None:
        self._file, self._size_bytes = file, size_bytes

    def __len__(self) -> int:
        return self._size_bytes

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        left = max(0, self._size_bytes - self._file.tell())
        return self._file.read(left if size < 0 else min(size, left))

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if whence == os.SEEK_END:
            offset, whence = self._size_bytes + offset, os.SEEK_SET
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        self._file.close()
        super().close()


def _unreadable(path: Path, error: OSError) -> StorageError:
    return StorageError("SourceUnreadable", f"cannot read {path}: {error.strerror or error}", "check that file")
