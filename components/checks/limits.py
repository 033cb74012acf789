"""Are the machine's small limits (shared memory, open files) large enough for the ranks?"""

import os
import resource
from pathlib import Path

from components.checks.question import Question
from components.contracts.checks import CheckResult
from components.contracts.units import format_size

_SHM_PER_RANK = 64 << 20
_OPEN_FILES = 1024


def shm_question(*, num_ranks: int, subject: str = "") -> Question:
    """Asks for shared memory for DataLoader workers and collectives."""
    return Question(
        name="shared_memory", scope="node", subject=subject or "/dev/shm", hard=False,
        expected=f"{format_size(_SHM_PER_RANK * num_ranks)} free in /dev/shm",
        origin=f"{format_size(_SHM_PER_RANK)} a rank for DataLoader workers and collectives",
        remedy="enlarge /dev/shm: a DataLoader that runs out of it dies with SIGBUS",
    )  # fmt: skip


def free_shm(path: Path = Path("/dev/shm")) -> int | None:
    """Bytes free in shared memory, or None when there is none."""
    if not path.is_dir():
        return None
    seen = os.statvfs(path)
    return seen.f_bavail * seen.f_frsize


def judge_shm(question: Question, *, free_bytes: int | None, num_ranks: int) -> CheckResult:
    if free_bytes is None:
        return question.fail("there is no /dev/shm")
    measured = f"{format_size(free_bytes)} free"
    return question.ok(measured) if free_bytes >= _SHM_PER_RANK * num_ranks else question.fail(measured)


def open_files_question(subject: str = "") -> Question:
    """Asks for open files for sockets, shards and DataLoader workers."""
    return Question(
        name="open_files", scope="node", subject=subject, hard=False, expected=f"at least {_OPEN_FILES}",
        origin="a socket a peer, a file a shard, and those of DataLoader workers", remedy="raise ulimit -n",
    )  # fmt: skip


def max_open_files() -> int:
    """How many files a process may hold open that does not ask for more: the soft limit, which the ranks inherit."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def judge_open_files(question: Question, *, limit: int) -> CheckResult:
    unlimited = limit == resource.RLIM_INFINITY
    measured = "unlimited" if unlimited else f"{limit} files"
    return question.ok(measured) if unlimited or limit >= _OPEN_FILES else question.fail(measured)
