"""Packs a folder of code so that the same files give the same bytes, whoever packs them, when and where.

What goes in: every regular file that no pattern excludes, by name, with its content and whether it may be executed.
No times, no owners, no empty folders. What cannot be carried faithfully is refused by name.
"""

import hashlib
import os
import stat
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from components.contracts.units import format_size
from components.errors import BadInput, Problem
from pipelines.code_section import ALWAYS_EXCLUDED

MAX_FILES = 20_000
_MOST_NAMED = 20
_KINDS = {
    stat.S_IFLNK: "a symbolic link", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFBLK: "a device",
    stat.S_IFCHR: "a device",
}  # fmt: skip


@dataclass(frozen=True)
class CodeFile:
    """A file to be carried."""

    name: str
    """Relative, with `/`."""
    path: Path
    size: int
    is_executable: bool


@dataclass(frozen=True)
class PackedCode:
    """An archive on this machine."""

    path: Path
    digest: str
    """Hex SHA-256."""
    num_files: int
    size: int
    """Of the files together, in bytes."""


@dataclass
class _Found:
    files: list[CodeFile] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def pack_code(folder: Path, *, exclude: Sequence[str], max_bytes: int, into: Path) -> PackedCode:
    """Write the archive of `folder` to the file `into`. Raises BadInput with everything that cannot be carried."""
    if not folder.is_dir():
        what = "is no folder" if folder.exists() else "does not exist"
        raise BadInput("NoCode", f"code.folder {folder} {what}", "correct it; it is relative to the description's file")
    found = list_code(folder, exclude=exclude)
    size = sum(item.size for item in found)
    if not found:
        raise BadInput("NoCode", f"code.folder {folder} holds no file that is not excluded", "correct code.exclude")
    if len(found) > MAX_FILES or size > max_bytes:
        raise BadInput(
            "CodeTooLarge",
            f"code.folder {folder} has {len(found)} files of {format_size(size)}; at most {MAX_FILES} and "
            f"{format_size(max_bytes)} travel with a run",
            "exclude what the program does not need with code.exclude, or raise code.max_size",
            problems=[Problem(name, f"holds {format_size(held)}") for name, held in _largest(found)],
        )  # fmt: skip
    with into.open("wb") as file:
        hashing = _Hashing(file)
        # Names beyond ASCII or 100 characters get a header of their own, in a fixed form.
        with tarfile.open(fileobj=hashing, mode="w|", format=tarfile.PAX_FORMAT) as archive:  # type: ignore[call-overload]
            for item in found:
                _add(archive, item)
    return PackedCode(into, hashing.digest.hexdigest(), len(found), size)


def list_code(folder: Path, *, exclude: Sequence[str]) -> list[CodeFile]:
    """What of `folder` travels, in the order of names. Raises BadInput with everything that cannot."""
    import pathspec  # only where code travels

    patterns = pathspec.GitIgnoreSpec.from_lines([*ALWAYS_EXCLUDED, *exclude])
    found = _Found()
    _walk(folder, "", patterns, found)
    if found.problems:
        named = found.problems[:_MOST_NAMED]
        more = f", the first {_MOST_NAMED} of them" if len(found.problems) > _MOST_NAMED else ""
        raise BadInput(
            "CodeRefused", f"{len(found.problems)} things in code.folder {folder} cannot travel{more}",
            "replace them by plain files, or name them in code.exclude", problems=named,
        )  # fmt: skip
    return sorted(found.files, key=lambda item: item.name)


def _walk(folder: Path, prefix: str, patterns: object, found: _Found) -> None:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        found.problems.append(Problem(prefix or ".", f"cannot be read: {error.strerror}"))
        return
    for entry in entries:
        name = prefix + entry.name
        is_folder = entry.is_dir(follow_symlinks=False)
        if patterns.match_file(f"{name}/" if is_folder else name):  # type: ignore[attr-defined]
            continue
        if (fault := _fault_of_name(name)) is not None:
            found.problems.append(Problem(ascii(name), fault))
        elif is_folder:
            _walk(Path(entry.path), f"{name}/", patterns, found)
        else:
            _note(entry, name, found)


def _note(entry: "os.DirEntry[str]", name: str, found: _Found) -> None:
    try:
        seen = entry.stat(follow_symlinks=False)
    except OSError as error:
        found.problems.append(Problem(name, f"cannot be read: {error.strerror}"))
        return
    kind = _KINDS.get(stat.S_IFMT(seen.st_mode))
    if kind is not None:
        target = f" to {os.readlink(entry.path)}" if entry.is_symlink() else ""
        found.problems.append(Problem(name, f"is {kind}{target}"))
    elif not os.access(entry.path, os.R_OK):
        found.problems.append(Problem(name, "may not be read"))
    else:
        found.files.append(CodeFile(name, Path(entry.path), seen.st_size, bool(seen.st_mode & stat.S_IXUSR)))


def _fault_of_name(name: str) -> str | None:
    if not name.isprintable():
        return "has control characters, or bytes that are no UTF-8, in its name"
    return "has a backslash in its name" if "\\" in name else None


def _largest(files: Sequence[CodeFile]) -> Iterator[tuple[str, int]]:
    """The entries of the top folder that hold the most."""
    held: dict[str, int] = {}
    for item in files:
        top, slash, _ = item.name.partition("/")
        held[top + slash] = held.get(top + slash, 0) + item.size
    yield from sorted(held.items(), key=lambda entry: (-entry[1], entry[0]))[:5]


def _add(archive: tarfile.TarFile, item: CodeFile) -> None:
    info = tarfile.TarInfo(item.name)
    info.size, info.mode, info.mtime = item.size, 0o755 if item.is_executable else 0o644, 0
    try:
        with item.path.open("rb") as file:
            archive.addfile(info, file)
            is_longer = bool(file.read(1))
    except OSError as error:
        # tarfile says so, too, when the file has become shorter than it was.
        raise _changed(item, error.strerror or str(error)) from error
    if is_longer:
        raise _changed(item, "it grew")


def _changed(item: CodeFile, why: str) -> BadInput:
    return BadInput("CodeChanged", f"{item.path} changed while it was packed: {why}", "submit again")


class _Hashing:
    """Hands everything on to a file and digests it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.digest = hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        return self._file.write(data)
