"""The files below a folder that match a pattern: links followed, loops survived, nothing entered that cannot match."""

import os
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from components.contracts.dataset import BadRecord
from components.errors import Problem


def walk(
    root: str, pattern: Sequence[str], *, skip: frozenset[str] = frozenset(), storage: Path | None = None
) -> Iterator[str | BadRecord | Problem]:
    """Names of files below `root`, relative to it, whose segments match `pattern`; `**` stands for any number of them.
    They come in order, one folder's names held at a time.

    Folders called one of `skip` are left out. A folder reached twice, as through a loop of links, is entered once.
    Links that lead nowhere count as files, so that they are reported; a socket, pipe or device is a BadRecord.
    A folder that cannot be listed, or is the storage, is a Problem.
    """
    entered, forbidden = set[tuple[int, int]](), _identity(storage) if storage else None
    odd = set[str]()
    waiting = [""]
    while waiting:
        name = waiting.pop()
        if name and not name.endswith("/"):
            yield BadRecord(path=name, reason="is a pipe, socket or device, not a file") if name in odd else name
            continue
        path = os.path.join(root, name)
        identity = _identity(path)
        if identity in entered:
            continue
        if identity is not None:
            entered.add(identity)
        if identity is not None and identity == forbidden:
            yield Problem(
                path.rstrip("/"), "is the storage itself, inside the corpus", "put one of the two somewhere else"
            )
            continue
        try:
            with os.scandir(path) as entries:
                below = []
                for entry in entries:
                    if found := _wanted(name, entry, pattern, skip):
                        below.append(found)
                        if not found.endswith("/") and not _is_file(entry):
                            odd.add(found)
        except OSError as error:
            seen = f"cannot list this folder: {error.strerror or error}"
            yield Problem(path.rstrip("/"), seen, "make it readable, or move it out of the corpus")
            continue
        # A folder's slash sorts it where its files will be: so names come in the order of whole paths.
        below.sort(reverse=True)
        waiting.extend(below)


def _wanted(folder: str, entry: os.DirEntry[str], pattern: Sequence[str], skip: frozenset[str]) -> str:
    """The entry's name if it matches, with a slash if it is a folder to enter; else empty."""
    name = folder + entry.name
    parts = name.split("/")
    if _is_folder(entry):
        return f"{name}/" if entry.name not in skip and leads_on(parts, pattern) else ""
    return name if matches(parts, pattern) else ""


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself: it leads nowhere, and no other entry of the folder is worse for it
        return False


def _is_file(entry: os.DirEntry[str]) -> bool:
    """Also what cannot be looked at: opening it says why."""
    try:
        return entry.is_file() or _leads_nowhere(entry)
    except OSError:
        return True


def _identity(path: str | Path) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _leads_nowhere(entry: os.DirEntry[str]) -> bool:
    return entry.is_symlink() and not os.path.exists(entry.path)


def matches(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether the whole of `pattern` matches the file."""
    if not pattern or not parts:
        return not pattern and not parts
    if pattern[0] == "**":
        return len(pattern) == 1 or any(matches(parts[place:], pattern[1:]) for place in range(len(parts)))
    return fnmatchcase(parts[0], pattern[0]) and matches(parts[1:], pattern[1:])


def leads_on(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether something below the folder may match."""
    if not parts or not pattern:
        return bool(pattern)
    return pattern[0] == "**" or (fnmatchcase(parts[0], pattern[0]) and leads_on(parts[1:], pattern[1:]))
