"""What only this machine can check of plain files: whether an inode was changed after the plan was made.

A file's size and modification time can be put back; the time of its inode cannot. But it differs from node to node
where each has a copy, as in an image, so it is no part of a plan. The plan leaves the newest such time it saw, under
the name of the place it was made in; a task in the same place, and no other, refuses a file whose inode is newer. Same
place: the same boot, and the same container or none. Nothing but another owner, mode or link is a false alarm there.
"""

import hashlib
import os
from pathlib import Path

from components.runtime.processes import boot_id, pid_namespace, start_time


def place() -> str:
    """Names the kernel and the container of this process; empty where that cannot be told."""
    boot, first = boot_id(), start_time(1)
    if not boot or first is None:
        return ""
    try:
        mounts = os.readlink("/proc/self/ns/mnt")
    except OSError:
        return ""
    return hashlib.sha256(f"{boot} {pid_namespace()} {first} {mounts}".encode()).hexdigest()[:16]


class NewestChange:
    """The newest inode among those looked at."""

    def __init__(self) -> None:
        self.at = 0
        self._path = ""

    def saw(self, path: str, changed_at: int) -> None:
        """Time in ns."""
        if changed_at > self.at:
            self.at, self._path = changed_at, path

    @property
    def holds(self) -> bool:
        """Whether there was one, and its time is the same when looked at again: some file systems make it up."""
        try:
            return bool(self.at) and Path(self._path).stat().st_ctime_ns == self.at
        except OSError:
            return False
