"""Which files a corpus is: a folder, one file, a glob, or the interpreter's own standard library.

`python:stdlib` means every `*.py` below `sysconfig.get_path("stdlib")` except what lies in `site-packages`,
`dist-packages` and `__pycache__`: about 1 800 files on CPython 3.11, the test suite's included, some empty, some not
UTF-8. They are installed once and not written afterwards, so two plans on one machine are equal.
"""

import os
import re
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from components.contracts.dataset import BadRecord, PlannedInput
from components.errors import BadInput, Problem

STDLIB = "python:stdlib"
_NOT_STDLIB = frozenset({"site-packages", "dist-packages", "__pycache__"})
_MAGIC = re.compile(r"[*?\[]")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


@dataclass
class Corpus:
    """What was found, in the order of the paths, and what was in the way."""

    root: str
    """Absolute folder the paths start from, or python:stdlib."""
    inputs: list[PlannedInput] = field(default_factory=list)
    unreadable: list[BadRecord] = field(default_factory=list)
    """Files that exist but cannot be read."""
    problems: list[Problem] = field(default_factory=list)
    """Faults no budget covers: the corpus is missing, or a folder in it cannot be listed."""


def root_folder(root: str) -> str:
    """The folder a plan's root stands for on this machine."""
    return sysconfig.get_path("stdlib") if root == STDLIB else root


def list_corpus(corpus: str, *, workdir: str) -> Corpus:
    """Every input of `corpus`, each opened once. Relative paths start from `workdir`.

    A folder means all regular files below it; links are followed, each folder is entered once. In a glob `**` stands
    for any number of folders. Raises BadInput for a scheme that is not known.
    """
    if corpus == STDLIB:
        return _listed(STDLIB, _walk_matching(sysconfig.get_path("stdlib"), ("**", "*.py"), _NOT_STDLIB))
    path = os.path.normpath(os.path.join(os.path.abspath(workdir or "."), os.path.expanduser(corpus)))
    if os.path.isdir(path):
        return _listed(path, _walk_matching(path, ("**",)))
    if os.path.lexists(path):
        return _listed(os.path.dirname(path), [os.path.basename(path)])
    if _SCHEME.match(corpus):
        raise BadInput("UnknownCorpus", f"corpus is {corpus!r}", "name a folder, a file, a glob, or python:stdlib")
    if _MAGIC.search(path):
        root, pattern = _split_glob(path)
        if os.path.isdir(root):
            return _listed(root, _walk_matching(root, pattern))
        path = root
    start = "" if os.path.isabs(os.path.expanduser(corpus)) else f"; relative paths start from {workdir or os.getcwd()}"
    return Corpus(root=path, problems=[Problem(f"corpus {corpus}", f"{path} does not exist", f"check the path{start}")])


def _split_glob(path: str) -> tuple[str, tuple[str, ...]]:
    """`/data/*/a.txt` -> (`/data`, (`*`, `a.txt`))."""
    parts = Path(path).parts
    first = next(place for place, part in enumerate(parts) if _MAGIC.search(part))
    return os.path.join(*parts[:first]), parts[first:]


def _listed(root: str, found: Iterable[str | Problem]) -> Corpus:
    corpus = Corpus(root=root)
    for item in found:
        if isinstance(item, Problem):
            corpus.problems.append(item)
            continue
        looked = _look(root_folder(root), item)
        if isinstance(looked, PlannedInput):
            corpus.inputs.append(looked)
        else:
            corpus.unreadable.append(looked)
    corpus.inputs.sort(key=lambda planned: planned.path)
    corpus.unreadable.sort(key=lambda record: record.path)
    return corpus


def _look(folder: str, name: str) -> PlannedInput | BadRecord:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        shown = os.fsencode(name).decode("utf-8", "backslashreplace")
        return BadRecord(path=shown, reason="its name is not UTF-8")
    try:
        descriptor = os.open(os.path.join(folder, name), os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        return BadRecord(path=name, reason=error.strerror or str(error))
    try:
        status = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    return PlannedInput(path=name, size_bytes=status.st_size, mtime_ns=status.st_mtime_ns)


def _walk_matching(root: str, pattern: tuple[str, ...], skip: frozenset[str] = frozenset()) -> Iterator[str | Problem]:
    depth = None if "**" in pattern else len(pattern)
    for item in _walk(root, skip, depth):
        if isinstance(item, Problem) or _matches(tuple(item.split("/")), pattern):
            yield item


def _matches(parts: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    if not pattern:
        return not parts
    if pattern[0] == "**":
        if len(pattern) == 1:
            return bool(parts)
        return any(_matches(parts[place:], pattern[1:]) for place in range(len(parts)))
    return bool(parts) and fnmatchcase(parts[0], pattern[0]) and _matches(parts[1:], pattern[1:])


def _walk(root: str, skip: frozenset[str], depth: int | None) -> Iterator[str | Problem]:
    """Names of files below `root`, relative to it. A folder reached twice, as through a loop of links, is entered once.

    Links that lead nowhere count as files, so that they are reported; sockets, pipes and devices are passed over.
    """
    entered = set[tuple[int, int]]()
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        path = os.path.join(root, folder)
        try:
            status = os.stat(path)
            if (status.st_dev, status.st_ino) in entered:
                continue
            entered.add((status.st_dev, status.st_ino))
            entries = sorted(os.scandir(path), key=lambda entry: entry.name)
        except OSError as error:
            yield Problem(
                path, f"cannot list this folder: {error.strerror or error}", "make it readable, or move it out"
            )
            continue
        below = []
        for entry in entries:
            name = f"{folder}/{entry.name}" if folder else entry.name
            if entry.is_dir():
                if entry.name not in skip and (depth is None or name.count("/") + 1 < depth):
                    below.append(name)
            elif entry.is_file() or (entry.is_symlink() and not os.path.exists(entry.path)):
                yield name
        waiting.extend(reversed(below))
