"""Which inputs a corpus is: a folder, a file, a glob, a prefix in a store, or the interpreter's own standard library.

`python:stdlib` means every `*.py` below `sysconfig.get_path("stdlib")` except what lies in `site-packages`,
`dist-packages` and `__pycache__`: about 1 800 files on CPython 3.11, the test suite's included, some empty, some not
UTF-8. They are installed once and not written afterwards, so two plans on one machine are equal.
"""

import os
import re
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from components.contracts.dataset import BadRecord
from components.dataset.blobs import STDLIB, is_uri, join_uri, split_uri, tag_of
from components.dataset.walk import matches, walk
from components.dataset.witness import NewestChange
from components.errors import BadInput, Problem
from components.storage.base import ObjectInfo, ObjectStore, key_parts, open_store

_NOT_STDLIB = frozenset({"site-packages", "dist-packages", "__pycache__"})
_MAGIC = re.compile(r"[*?\[]")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


class Found(NamedTuple):
    """One input."""

    path: str
    """Relative to the corpus's root."""
    size: int
    tag: int | str
    """See `Input.tag`."""
    changed_at: int = 0
    """Of a plain file the time of its inode, in ns."""


@dataclass
class Corpus:
    """Iterate once: yields every input in the order of the paths. What was in the way is known afterwards."""

    root: str
    """Absolute folder or uri that the paths start from, or python:stdlib."""
    entries: Iterable[Found | BadRecord | Problem] = ()
    unreadable: list[BadRecord] = field(default_factory=list)
    """Files that exist but cannot be read."""
    problems: list[Problem] = field(default_factory=list)
    """Faults no budget covers: the corpus is missing, or a folder in it cannot be listed."""
    newest: NewestChange = field(default_factory=NewestChange)
    """Of the plain files."""

    def __iter__(self) -> Iterator[Found]:
        for entry in self.entries:
            if isinstance(entry, Found):
                if entry.changed_at > self.newest.at:
                    self.newest.saw(os.path.join(self.place, entry.path), entry.changed_at)
                yield entry
            elif isinstance(entry, Problem):
                self.problems.append(entry)
            else:
                self.unreadable.append(entry)

    @property
    def place(self) -> str:
        """Where people find it."""
        return sysconfig.get_path("stdlib") if self.root == STDLIB else self.root


def open_corpus(corpus: str, *, workdir: str, storage: Path | None = None) -> Corpus:
    """The inputs of `corpus`, each opened once when its turn comes. Relative paths start from `workdir`.

    A folder means all regular files below it; links are followed, each folder is entered once. In a glob `**` stands
    for any number of folders. `storage` must not lie where the corpus is looked for, or it would grow with every run.
    Raises BadInput for a scheme that is not known.
    """
    if not corpus.strip():  # a variable that is not set must not mean everything in this folder
        raise BadInput("UnknownCorpus", "corpus is empty", "name a folder, a file, a glob or s3://bucket/prefix")
    if corpus == STDLIB:
        folder = sysconfig.get_path("stdlib")
        return Corpus(STDLIB, _looked(folder, walk(folder, ("**", "*.py"), skip=_NOT_STDLIB)))
    if is_uri(corpus):
        return _stored(corpus)
    path = os.path.normpath(os.path.join(os.path.abspath(workdir or "."), os.path.expanduser(corpus)))
    if os.path.isdir(path):
        return Corpus(path, _looked(path, walk(path, ("**",), storage=storage)))
    if os.path.exists(path) and not os.path.isfile(path):
        odd = Problem(f"corpus {corpus}", f"{path} is neither a file nor a folder", "name a file, a folder or a glob")
        return Corpus(path, [odd])
    if os.path.lexists(path):
        folder, name = os.path.split(path)
        return Corpus(folder, _looked(folder, [name]))
    if _SCHEME.match(corpus):
        raise BadInput(
            "UnknownCorpus",
            f"corpus is {corpus!r}",
            "name a folder, a file, a glob, s3://bucket/prefix or python:stdlib",
        )
    if _MAGIC.search(path):
        root, pattern = _split_glob(path)
        if os.path.isdir(root):
            return Corpus(root, _looked(root, walk(root, pattern, storage=storage)))
        path = root
    start = "" if os.path.isabs(os.path.expanduser(corpus)) else f"; relative paths start from {workdir or os.getcwd()}"
    return Corpus(path, [Problem(f"corpus {corpus}", f"{path} does not exist", f"check the path{start}")])


def _split_glob(path: str) -> tuple[str, tuple[str, ...]]:
    """`/data/*/a.txt` -> (`/data`, (`*`, `a.txt`))."""
    parts = Path(path).parts
    first = next(place for place, part in enumerate(parts) if _MAGIC.search(part))
    return os.path.join(*parts[:first]), parts[first:]


def _looked(folder: str, names: Iterable[str | BadRecord | Problem]) -> Iterator[Found | BadRecord | Problem]:
    start = folder.rstrip("/") + "/"
    for name in names:
        yield _look(start, name) if isinstance(name, str) else name


def _look(start: str, name: str) -> Found | BadRecord:
    if not name.isascii():
        try:
            name.encode("utf-8")
        except UnicodeEncodeError:
            shown = os.fsencode(name).decode("utf-8", "backslashreplace")
            return BadRecord(path=shown, reason="its name is not UTF-8")
    try:
        descriptor = os.open(start + name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        return BadRecord(path=name, reason=error.strerror or str(error))
    try:
        status = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    return Found(name, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _stored(corpus: str) -> Corpus:
    """One object, those below a prefix, or those a pattern matches; listed once."""
    base, key = split_uri(corpus)
    parts = key.split("/")
    first = next((place for place, part in enumerate(parts) if _MAGIC.search(part)), len(parts))
    prefix, pattern = "/".join(parts[:first]), tuple(parts[first:]) or ("**",)
    if not prefix:
        raise BadInput("NoPrefix", f"corpus is {corpus!r}", "put at least one plain name before the first * or ?")
    store = open_store(base)
    if alone := _alone(store, key):
        folder, _, name = key.rpartition("/")
        return Corpus(join_uri(base, folder) if folder else base, (_object(store, name, info) for info in (alone,)))
    return Corpus(join_uri(base, prefix), _objects(corpus, store, prefix, pattern))


def _alone(store: ObjectStore, key: str) -> ObjectInfo | None:
    """The object of exactly that name, when nothing lies below it."""
    is_folder = next(iter(store.list(key)), None) is not None
    return None if is_folder else store.find(key)


def _objects(
    corpus: str, store: ObjectStore, prefix: str, pattern: Sequence[str]
) -> Iterator[Found | BadRecord | Problem]:
    is_empty = True
    for info in store.list(prefix):
        is_empty = False
        name = info.key.removeprefix(f"{prefix}/")
        if pattern == ("**",) or matches(name.split("/"), pattern):
            yield _object(store, name, info)
    if is_empty:
        yield Problem(f"corpus {corpus}", f"there is no object below {store.uri_of(prefix)}", "check bucket and prefix")


def _object(store: ObjectStore, name: str, info: ObjectInfo) -> Found | BadRecord:
    try:
        path = store.local_path("/".join(key_parts(info.key)))
    except ValueError:
        return BadRecord(path=name, reason="its key has a part that is empty, . or .., so it is no path")
    if path is None:
        return Found(name, info.size_bytes, info.version)
    try:
        status = path.stat()
    except OSError as error:
        return BadRecord(path=name, reason=error.strerror or str(error))
    return Found(name, status.st_size, tag_of(status))
