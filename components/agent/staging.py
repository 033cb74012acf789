"""Watches the staging folder of one attempt for steps that are READY."""

import contextlib
import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

_STEP = re.compile(r"step-(\d{1,15})")


class Staging:
    """Hands out each READY step once, in order; a step that comes late, after a higher one, is left alone."""

    def __init__(self, folder: Path, marks: Iterable[str]) -> None:
        """`marks`: the files a step needs to be READY, for example `READY` or `READY.2`."""
        self.folder, self._marks = folder, frozenset(marks)
        self._highest = -1

    def poll(self) -> list[tuple[int, Path]]:
        """Steps that became READY since the last call, in order."""
        try:
            entries = list(os.scandir(self.folder))
        except OSError:
            return []
        ready = []
        for entry in entries:
            match = _STEP.fullmatch(entry.name)
            if match and int(match[1]) > self._highest and entry.is_dir(follow_symlinks=False):
                path = Path(entry.path)
                if self._marks and all((path / mark).is_file() for mark in self._marks):
                    ready.append((int(match[1]), path))
        ready.sort()
        if ready:
            self._highest = ready[-1][0]
        return ready


def remove_unfinished(folder: Path, kept: frozenset[Path]) -> None:
    """Remove what is in the staging folder of an attempt that is over, except `kept`."""
    with contextlib.suppress(OSError):
        for entry in list(os.scandir(folder)):
            if Path(entry.path) not in kept:
                shutil.rmtree(entry.path, ignore_errors=True)


def ready_marks(*, writers: str, ranks: Iterable[int]) -> list[str]:
    """The marks that `ranks`, those of one node, must leave; none when this node does not take part."""
    if writers == "all":
        return [f"READY.{rank}" for rank in ranks]
    return ["READY"] if 0 in ranks else []
