"""Finds the files of a checkpoint that may lie anywhere: a folder or file of this machine, or objects in a bucket."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from components.errors import BadInput, Problem
from components.integrity.one_pass import Wanted
from components.integrity.safe_path import MANIFEST_NAME, RECEIPTS_NAME, fault_of_path
from components.integrity.torch_pickle import shown
from components.storage.base import ObjectStore, open_store
from components.storage.location import StoreOptions

_MAX_FILES = 1_000_000


class UnusablePlace(BadInput):
    """There is no checkpoint there, or not one that can be read as it lies there."""


@dataclass(frozen=True)
class Place:
    """Files of what may be a checkpoint."""

    uri: str
    store: ObjectStore
    folder: str
    """Key of the folder; empty for a single file."""
    name: str
    """Last segment of where it lies: often says the step."""
    files: tuple[Wanted, ...]
    """Everything but what Argosy itself wrote beside it, in the order of the names."""
    has_manifest: bool

    def key(self, path: str) -> str:
        return f"{self.folder}/{path}" if self.folder else path

    def read(self, path: str, most: int) -> bytes:
        """The first `most` bytes of a file."""
        with self.store.open(self.key(path)) as stream:
            return stream.read(most)


def find_place(where: str, options: StoreOptions | None = None) -> Place:
    """What lies at `where`: a path, `file:///...` or `s3://bucket/...`. Raises UnusablePlace with every fault listed.

    A link to a file counts as the file (a model hub's cache is made of them); a link to a folder does not, for it may
    lead round in a circle. `options` say how a bucket is reached where the environment does not.
    """
    if "://" in where and not where.startswith("file://"):
        return _remote(where.rstrip("/"), options)
    given = Path(where.removeprefix("file://")).expanduser()
    try:
        path = given.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or "its links lead round in a circle"
        raise UnusablePlace("NoSuchPlace", f"{_plain(given)}: {reason}", "name a folder or file that exists") from error
    store = open_store(f"file://{path.parent}")
    uri = f"file://{_plain(path)}"
    if path.is_file():
        return Place(uri, store, "", path.name, (Wanted(path.name, path.stat().st_size),), False)
    if not path.is_dir() or path.parent == path or fault_of_path(path.name):
        raise UnusablePlace("UnusablePlace", f"{uri} is neither a file nor a folder with a usable name")
    problems: list[Problem] = []
    files = tuple(sorted(_below(path, problems), key=lambda file: file.path))
    return _place(uri, store, path.name, path.name, files, problems)


def _remote(uri: str, options: StoreOptions | None) -> Place:
    parent, _, name = uri.rpartition("/")
    if not name or parent.endswith("/"):
        raise UnusablePlace("UnusablePlace", f"{uri} is a whole store", "name the checkpoint's folder in it")
    store = open_store(parent, options)
    try:
        files = tuple(Wanted(item.key[len(name) + 1 :], item.size_bytes) for item in store.list(name))
    except ValueError as error:
        raise UnusablePlace("UnusablePlace", f"{uri}: {error}", "name the checkpoint's folder") from error
    single = store.find(name) if not files else None
    if single is not None:
        return Place(uri, store, "", name, (Wanted(name, single.size_bytes),), False)
    return _place(uri, store, name, name, files, [])


def _place(
    uri: str, store: ObjectStore, folder: str, name: str, files: tuple[Wanted, ...], problems: list[Problem]
) -> Place:
    kept = tuple(file for file in files if file.path != MANIFEST_NAME and file.path.split("/")[0] != RECEIPTS_NAME)
    has_manifest = any(file.path == MANIFEST_NAME for file in files)
    if not has_manifest:
        kept = files
    for file in kept:
        fault = fault_of_path(file.path)
        if fault:
            problems.append(Problem(shown(file.path), f"the name {fault}"))
    if problems:
        raise UnusablePlace(
            "UnusableFiles", f"{uri} contains files that cannot be used",
            "checkpoints are plain, readable files with printable names", problems=problems,
        )  # fmt: skip
    if not kept:
        raise UnusablePlace("EmptyFolder", f"{uri} contains no file", "name the folder the files of one step lie in")
    return Place(uri, store, folder, name, kept, has_manifest)


def _below(root: Path, problems: list[Problem]) -> Iterator[Wanted]:
    num_files = 0

    def refused(error: OSError) -> None:
        problems.append(Problem(_plain(error.filename or root), error.strerror or str(error)))

    for parent, folders, names in os.walk(root, onerror=refused, followlinks=False):
        for name in [*names, *(name for name in folders if os.path.islink(os.path.join(parent, name)))]:
            local = Path(parent, name)
            try:
                target = local.resolve(strict=True)
                if not target.is_file():
                    kind = "is a link to a folder" if target.is_dir() else "is not a regular file"
                    problems.append(Problem(_plain(local), kind))
                elif not os.access(target, os.R_OK):
                    problems.append(Problem(_plain(local), "cannot be read: permission denied"))
                else:
                    yield Wanted(local.relative_to(root).as_posix(), target.stat().st_size)
            except (OSError, RuntimeError):
                problems.append(Problem(_plain(local), "is a link that leads nowhere or round in a circle"))
            num_files += 1
            if num_files > _MAX_FILES:
                raise UnusablePlace("TooManyFiles", f"{_plain(root)} holds more than {_MAX_FILES} files")


def _plain(path: object) -> str:
    return shown(str(path).encode("utf-8", "backslashreplace").decode())
