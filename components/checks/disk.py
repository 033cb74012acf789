"""Is there room on the disk for what will be written there?"""

import os
from pathlib import Path
from typing import Literal

from components.checks.question import Question
from components.contracts.checks import CheckResult
from components.contracts.units import format_size

_FULL_PERCENT = 95


def disk_question(
    *, path: Path, need_bytes: int, what: str, origin: str, scope: Literal["node", "environment"]
) -> Question:
    """Asks for `need_bytes` free at `path`; `what` says what for, `origin` where the figure comes from."""
    return Question(
        name="disk_space", scope=scope, subject=str(path), expected=f"{format_size(need_bytes)} free for {what}",
        origin=origin, remedy="free space on that disk, or use another one",
    )  # fmt: skip


def disk_space(question: Question, *, path: Path, need_bytes: int) -> CheckResult:
    """Compares the space free for us at `path`, or where it will be created, with `need_bytes`."""
    seen = os.statvfs(existing_parent(path))
    return judge_disk(
        question, need_bytes=need_bytes, free_bytes=seen.f_bavail * seen.f_frsize,
        total_bytes=seen.f_blocks * seen.f_frsize, free_inodes=seen.f_favail if seen.f_files else None,
    )  # fmt: skip


def judge_disk(
    question: Question, *, need_bytes: int, free_bytes: int, total_bytes: int, free_inodes: int | None
) -> CheckResult:
    """The answer for these figures; `free_inodes` is None where the file system does not count them."""
    measured = f"{format_size(free_bytes)} free of {format_size(total_bytes)}"
    if free_bytes < need_bytes:
        return question.fail(measured)
    if free_inodes is not None and free_inodes < 1000:
        return question.fail(f"{measured}, but room for only {free_inodes} more files", "remove files: inodes run out")
    if total_bytes and (total_bytes - free_bytes) * 100 > _FULL_PERCENT * total_bytes:
        return question.warn(f"{measured}: more than {_FULL_PERCENT} % used")
    return question.ok(measured)


def existing_parent(path: Path) -> Path:
    """`path`, or the nearest folder above it that is there already."""
    path = path.absolute()
    while not path.exists() and path != path.parent:
        path = path.parent
    return path
