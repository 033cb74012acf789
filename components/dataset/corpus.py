"""Which files a corpus is: a folder, one file, a glob, or the interpreter's own standard library.

`python:stdlib` means every `*.py` below `sysconfig.get_path("stdlib")` except what lies in `site-packages`,
`dist-packages` and `__pycache__`: about 1 800 files on CPython 3.11, the test suite's included, some empty, some not
UTF-8. They are installed once and not written afterwards, so two plans on one machine are equal.
"""

import os
import re
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from components.contracts.dataset import BadRecord, PlannedInput
from components.dataset.walk import walk
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


def list_corpus(corpus: str, *, workdir: str, storage: Path | None = None) -> Corpus:
    """Every input of `corpus`, each opened once. Relative paths start from `workdir`.

    A folder means all regular files below it; links are followed, each folder is entered once. In a glob `**` stands
    for any number of folders. `storage` must not lie where the corpus is looked for, or it would grow with every run.
    Raises BadInput for a scheme that is not known.
    """
    if corpus == STDLIB:
        return _listed(STDLIB, walk(sysconfig.get_path("stdlib"), ("**", "*.py"), skip=_NOT_STDLIB))
    path = os.path.normpath(os.path.join(os.path.abspath(workdir or "."), os.path.expanduser(corpus)))
    if os.path.isdir(path):
        return _listed(path, walk(path, ("**",), storage=storage))
    if os.path.exists(path) and not os.path.isfile(path):
        odd = Problem(f"corpus {corpus}", f"{path} is neither a file nor a folder", "name a file, a folder or a glob")
        return Corpus(root=path, problems=[odd])
    if os.path.lexists(path):
        return _listed(os.path.dirname(path), [os.path.basename(path)])
    if _SCHEME.match(corpus):
        raise BadInput("UnknownCorpus", f"corpus is {corpus!r}", "name a folder, a file, a glob, or python:stdlib")
    if _MAGIC.search(path):
        root, pattern = _split_glob(path)
        if os.path.isdir(root):
            return _listed(root, walk(root, pattern, storage=storage))
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
