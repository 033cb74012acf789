"""Control groups: how every process of the cluster is found again, whatever became of its parents.

Version 1 (a hierarchy a controller) and version 2 (one hierarchy) alike: a group is a path below each mount.
"""

import contextlib
import os
import signal
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from components.errors import EnvironmentUnfit

_KILL_SECONDS = 20.0


def mounts(table: str | None = None) -> tuple[list[Path], bool]:
    """The mounted hierarchies that matter, and whether it is version 2. Version 1 wins where both are mounted."""
    lines = (Path("/proc/self/mounts").read_text() if table is None else table).splitlines()
    fields = [line.split() for line in lines]
    first = [Path(f[1]) for f in fields if f[2] == "cgroup"]
    second = [Path(f[1]) for f in fields if f[2] == "cgroup2"]
    return (first, False) if first else (second[:1], True)


def _all_mounts() -> list[Path]:
    """Version 2 beside version 1 as well: container runtimes make groups in both."""
    fields = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    return [Path(f[1]) for f in fields if f[2] in ("cgroup", "cgroup2")]


def create(group: str) -> None:
    """The group in every hierarchy. Cpus and memory nodes are inherited by hand, as version 1 wants it."""
    hierarchies, second = mounts()
    for root in hierarchies:
        folder = root
        for part in group.strip("/").split("/"):
            parent, folder = folder, folder / part
            folder.mkdir(exist_ok=True)
            if second:
                controllers = (parent / "cgroup.controllers").read_text().split()
                with contextlib.suppress(OSError):  # a parent that holds processes itself cannot hand controllers on
                    (parent / "cgroup.subtree_control").write_text(" ".join(f"+{c}" for c in controllers))
            for name in ("cpuset.cpus", "cpuset.mems"):
                here = folder / name
                if not second and here.exists() and not here.read_text().strip():
                    here.write_text((parent / name).read_text())


def tracking(group: str) -> Path:
    """Where our own processes are put. On version 1 this is one hierarchy: limits set on the caller stay in force."""
    hierarchies, second = mounts()
    chosen = hierarchies if second else [h for h in hierarchies if h.name == "pids"] or hierarchies
    if not chosen:
        raise EnvironmentUnfit("NoControlGroups", "no control group hierarchy is mounted")
    return chosen[0] / group.strip("/")


def pids(group: str) -> set[int]:
    """Every process in the group or below it, in any hierarchy."""
    found: set[int] = set()
    for folder in _folders(group):
        with contextlib.suppress(OSError):
            found.update(int(line) for line in (folder / "cgroup.procs").read_text().split())
    return found - {os.getpid()}


def kill(group: str) -> int:
    """SIGKILL to everything in it until nothing is left. Returns how many processes there were.

    Raises EnvironmentUnfit when some survive it.
    """
    killed: set[int] = set()
    deadline = time.monotonic() + _KILL_SECONDS
    while left := pids(group):
        killed |= left
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise EnvironmentUnfit("WillNotDie", f"processes {sorted(left)} of {group} survive SIGKILL")
        time.sleep(0.02)
    return len(killed)


def remove(group: str) -> None:
    """The empty groups, children first."""
    deadline = time.monotonic() + 5
    for folder in sorted(_folders(group), key=lambda f: len(f.parts), reverse=True):
        while folder.exists():
            try:
                folder.rmdir()
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)  # the kernel takes a moment to let go of a process that has just died


def exists(group: str) -> bool:
    return any(True for _ in _folders(group))


def _folders(group: str) -> Iterator[Path]:
    for root in _all_mounts():
        top = root / group.strip("/")
        if top.is_dir():
            yield top
            yield from _below(top)


def _below(folder: Path) -> Iterable[Path]:
    try:
        children = [entry for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return
    for child in children:
        yield Path(child.path)
        yield from _below(Path(child.path))
