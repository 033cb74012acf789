"""Room on disks: by value, and on a real full file system."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from components.checks.disk import disk_question, disk_space, existing_parent, judge_disk
from components.checks.storage import storage_questions, storage_writable
from components.contracts.checks import CheckResult, CheckStatus
from components.storage.local import LocalStore

GIB = 1 << 30


def judged(*, free: int, need: int = GIB, total: int = 100 * GIB, inodes: int | None = 10**6) -> CheckResult:
    question = disk_question(path=Path("/d"), need_bytes=need, what="shards", origin="a test", scope="environment")
    return judge_disk(question, need_bytes=need, free_bytes=free, total_bytes=total, free_inodes=inodes)


@pytest.mark.parametrize(
    ("result", "status", "measured"),
    [
        (judged(free=50 * GIB), CheckStatus.OK, "50.0 GiB free of 100.0 GiB"),
        (judged(free=GIB // 2), CheckStatus.FAIL, "512.0 MiB free of 100.0 GiB"),
        (judged(free=2 * GIB), CheckStatus.WARN, "2.0 GiB free of 100.0 GiB: more than 95 % used"),
        (judged(free=50 * GIB, inodes=3), CheckStatus.FAIL,
         "50.0 GiB free of 100.0 GiB, but room for only 3 more files"),
        (judged(free=50 * GIB, inodes=None), CheckStatus.OK, "50.0 GiB free of 100.0 GiB"),
        (judged(free=0, total=0, need=0), CheckStatus.OK, "0 B free of 0 B"),
    ],
)  # fmt: skip
def test_room_is_judged_by_bytes_and_by_files(result: CheckResult, status: CheckStatus, measured: str) -> None:
    assert (result.status, result.measured) == (status, measured)


def test_a_folder_that_is_not_there_yet_is_measured_where_it_will_be(tmp_path: Path) -> None:
    question = disk_question(path=tmp_path, need_bytes=1, what="x", origin="a test", scope="node")
    assert existing_parent(tmp_path / "a/b/c") == tmp_path
    assert disk_space(question, path=tmp_path / "a/b/c", need_bytes=1).status is not CheckStatus.FAIL


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB. Needs root."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1M", "tmpfs", str(folder)], check=False)
    if mounted.returncode:
        pytest.skip("mounting is not allowed here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_fails_the_space_and_the_write_check(small_disk: Path) -> None:
    with pytest.raises(OSError, match="No space"):
        (small_disk / "filler").write_bytes(bytes(2 << 20))
    question = disk_question(path=small_disk, need_bytes=4096, what="shards", origin="a test", scope="environment")
    assert disk_space(question, path=small_disk, need_bytes=4096).status is CheckStatus.FAIL
    writable, _ = storage_questions("file:///small")
    refused = storage_writable(writable, LocalStore(small_disk), run="r-1")
    assert refused.status is CheckStatus.FAIL
    assert "No space left on device" in refused.measured
    assert "free space on that disk" in refused.remedy


def test_a_read_only_disk_fails_the_write_check(small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    writable, _ = storage_questions("file:///small")
    refused = storage_writable(writable, LocalStore(small_disk), run="r-1")
    assert refused.status is CheckStatus.FAIL
    assert "Read-only file system" in refused.measured
