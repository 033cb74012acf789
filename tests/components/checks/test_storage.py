"""The storage's promises, asked of a good store and of stores that break them."""

import os
from pathlib import Path

import pytest

from components.checks.storage import (
    clock_question,
    storage_atomic,
    storage_clock,
    storage_questions,
    storage_writable,
)
from components.contracts.checks import CheckStatus
from components.storage.base import ObjectStore
from components.storage.local import LocalStore

WRITABLE, ATOMIC = storage_questions("file:///store")


class LastWriterWins(LocalStore):
    """A store whose create is a plain write, as on a file system that ignores exclusive creation."""

    def create(self, key: str, data: bytes) -> None:
        self.replace(key, data)


class Forgetful(LocalStore):
    """A store that gives back something else."""

    def read(self, key: str) -> bytes:
        return super().read(key)[:-1]


class Undead(LocalStore):
    """A store that does not delete."""

    def delete(self, key: str) -> None:
        return


def test_a_good_store_passes_and_keeps_nothing(tmp_path: Path) -> None:
    store: ObjectStore = LocalStore(tmp_path)
    assert storage_writable(WRITABLE, store, run="r-1").status is CheckStatus.OK
    atomic = storage_atomic(ATOMIC, store, run="r-1")
    assert (atomic.status, atomic.measured) == (
        CheckStatus.OK, "second create refused; 1 of 4 racing creates succeeded",
    )  # fmt: skip
    assert storage_clock(clock_question(store.uri), store, run="r-1").status is CheckStatus.OK
    assert list(store.list("runs")) == []


def test_a_store_where_the_last_writer_wins_is_not_atomic(tmp_path: Path) -> None:
    result = storage_atomic(ATOMIC, LastWriterWins(tmp_path), run="r-1")
    assert (result.status, result.measured) == (CheckStatus.FAIL, "a second create of the same object succeeded")


def test_a_store_that_gives_back_other_bytes_fails(tmp_path: Path) -> None:
    result = storage_writable(WRITABLE, Forgetful(tmp_path), run="r-1")
    assert (result.status, result.measured) == (CheckStatus.FAIL, "wrote 16 bytes and read back 15 others")


def test_a_store_that_does_not_delete_fails(tmp_path: Path) -> None:
    result = storage_writable(WRITABLE, Undead(tmp_path), run="r-1")
    assert (result.status, result.measured) == (CheckStatus.FAIL, "an object that was removed is still there")


def test_a_file_where_the_storage_should_be_fails(tmp_path: Path) -> None:
    (tmp_path / "storage").write_text("not a folder")
    result = storage_writable(WRITABLE, LocalStore(tmp_path / "storage"), run="r-1")
    assert result.status is CheckStatus.FAIL
    assert result.remedy == "a file stands where a folder should be"


def test_a_folder_that_may_not_be_written_fails(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    tmp_path.chmod(0o500)
    assert storage_writable(WRITABLE, LocalStore(tmp_path), run="r-1").status is CheckStatus.FAIL


class WrongClock(LocalStore):
    """A file server whose clock is an hour ahead."""

    def create(self, key: str, data: bytes) -> None:
        super().create(key, data)
        path = self.root / key
        os.utime(path, (path.stat().st_mtime + 3600, path.stat().st_mtime + 3600))


def test_clocks_that_are_apart_are_a_warning(tmp_path: Path) -> None:
    result = storage_clock(clock_question("file:///store"), WrongClock(tmp_path), run="r-1")
    assert result.status is CheckStatus.WARN
    assert result.measured.startswith(("3599.", "3600."))
