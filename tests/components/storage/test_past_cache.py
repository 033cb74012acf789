"""Copies past the page cache: the bytes are right whatever their number, and wherever direct writes are refused."""

import errno
import fcntl
import functools
import hashlib
import io
import os
from pathlib import Path
from typing import Any

import pytest

from components.storage import past_cache
from components.storage.base import StorageError
from components.storage.local import LocalStore

MIB = 1 << 20
SIZES = (0, 1, 4095, 4096, 4 * MIB - 1, 4 * MIB, 4 * MIB + 1, 6 * MIB + 4096, 7 * MIB + 12345)


@pytest.mark.parametrize("size", SIZES)
def test_every_byte_is_copied_once(tmp_path: Path, size: int) -> None:
    content = os.urandom(size)
    (tmp_path / "source").write_bytes(content)
    store = LocalStore(tmp_path / "store")
    assert store.create_from("a/copy", tmp_path / "source") == hashlib.sha256(content).hexdigest()
    assert store.read("a/copy") == content


class Odd(io.FileIO):
    """A disk that refuses direct writes, writes a part of what it is given, or is full."""

    def __init__(self, descriptor: int, mode: str, *, buffering: int, refuses: int = 0, most: int = 1 << 40) -> None:
        assert buffering == 0
        super().__init__(descriptor, mode)
        self._refuses, self._most = refuses, most

    def write(self, data: Any) -> int:
        if self._refuses == errno.ENOSPC or (self._refuses and os.O_DIRECT & fcntl.fcntl(self, fcntl.F_GETFL)):
            raise OSError(self._refuses, os.strerror(self._refuses))
        return super().write(memoryview(data)[: self._most]) or 0


@pytest.mark.parametrize("oddity", [{"refuses": errno.EINVAL}, {"most": 4096 * 100}, {"most": 100_000}])
def test_a_disk_of_another_kind_gets_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, oddity: dict[str, Any]
) -> None:
    content = os.urandom(5 * MIB + 17)
    monkeypatch.setattr(os, "fdopen", functools.partial(Odd, **oddity))
    (tmp_path / "source").write_bytes(content)
    store = LocalStore(tmp_path / "store")
    store.create_from("copy", tmp_path / "source")
    store.create("small", content)
    assert store.read("copy") == store.read("small") == content


def test_without_direct_writes_the_copy_is_an_ordinary_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = os.urandom(5 * MIB + 17)
    monkeypatch.setattr(past_cache, "_DIRECT", 0)
    (tmp_path / "source").write_bytes(content)
    store = LocalStore(tmp_path / "store")
    store.create_from("copy", tmp_path / "source")
    assert store.read("copy") == content


def test_a_full_disk_is_told_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "source").write_bytes(bytes(5 * MIB))
    store = LocalStore(tmp_path / "store")
    monkeypatch.setattr(os, "fdopen", functools.partial(Odd, refuses=errno.ENOSPC))
    with pytest.raises(StorageError, match="No space left on device"):
        store.create_from("copy", tmp_path / "source")
    assert store.find("copy") is None
