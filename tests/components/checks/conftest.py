"""Files and executables the checks look at."""

import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from components.checks.question import Question


@pytest.fixture
def question() -> Question:
    """A hard question about nothing in particular."""
    return Question(name="q", scope="node", expected="good", origin="a test", remedy="mend it")


@pytest.fixture
def executable(tmp_path: Path) -> Callable[[str, str], Path]:
    """Makes `name` an executable shell script in a folder fit for PATH, and returns that folder."""

    def make(name: str, script: str) -> Path:
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        path = folder / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return folder

    return make


@pytest.fixture
def tree(tmp_path: Path) -> Callable[[dict[str, str]], Path]:
    """Writes a tree of small files, such as a /proc or a cgroup hierarchy, and returns its root."""

    def write(files: dict[str, str]) -> Path:
        root = tmp_path / "tree"
        for name, text in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return root

    return write
