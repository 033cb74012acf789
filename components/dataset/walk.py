"""The files below a folder that match a pattern: links followed, loops survived, nothing entered that cannot match."""

import os
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from components.errors import Problem


def walk(
    root: str, pattern: Sequence[str], *, skip: frozenset[str] = frozenset(), storage: Path | None = None
) -> Iterator[str | Problem]:
    """Names of files below `root`, relative to it, whose segments match `pattern`; `**` stands for any number of them.

    Folders called one of `skip` are left out. A folder reached twice, as through a loop of links, is entered once.
    Links that lead nowhere count as files, so that they are reported; sockets, pipes and devices are passed over.
    A folder that cannot be listed, or is the storage, is a Problem.
    """
    entered, forbidden = set[tuple[int, int]](), _identity(storage) if storage else None
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        path = os.path.join(root, folder) if folder else root
        identity = _identity(path)
        if identity in entered:
            continue
        if identity is not None:
            entered.add(identity)
        if identity is not None and identity == forbidden:
            yield Problem(path, "is the storage itself, inside the corpus", "put one of the two somewhere else")
            continue
        try:
            entries = sorted(os.scandir(path), key=lambda entry: entry.name)
        except OSError as error:
            seen = f"cannot list this folder: {error.strerror or error}"
            yield Problem(path, seen, "make it readable, or move it out of the corpus")
            continue
        below = []
        for entry in entries:
            name = f"{folder}/{entry.name}" if folder else entry.name
            parts = name.split("/")
            if entry.is_dir():
                if entry.name not in skip and _leads_on(parts, pattern):
                    below.append(name)
            elif _matches(parts, pattern) and (entry.is_file() or _leads_nowhere(entry)):
                yield name
        waiting.extend(reversed(below))


def _identity(path: str | Path) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _leads_nowhere(entry: os.DirEntry[str]) -> bool:
    return entry.is_symlink() and not os.path.exists(entry.path)


def _matches(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether the whole of `pattern` matches the file."""
    if not pattern or not parts:
        return not pattern and not parts
    if pattern[0] == "**":
        return len(pattern) == 1 or any(_matches(parts[place:], pattern[1:]) for place in range(len(parts)))
    return fnmatchcase(parts[0], pattern[0]) and _matches(parts[1:], pattern[1:])


def _leads_on(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether something below the folder may match."""
    if not parts or not pattern:
        return bool(pattern)
    return pattern[0] == "**" or (fnmatchcase(parts[0], pattern[0]) and _leads_on(parts[1:], pattern[1:]))
