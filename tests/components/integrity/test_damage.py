"""Every damage in tests/damage is found at its level and named, and none is found where there is none."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from components.integrity.verify import examine, verify_checkpoint
from components.storage.local import LocalStore

DAMAGE = Path(__file__).parents[2] / "damage"
FOLDERS = sorted(path.parent.name for path in DAMAGE.glob("*/expected.json"))
LEVELS = ("files", "digests", "tensors")


@pytest.mark.parametrize("name", FOLDERS)
def test_a_damage_is_found_and_named(name: str) -> None:
    folder = DAMAGE / name
    expected = json.loads((folder / "expected.json").read_text())
    sha256 = (folder / "manifest.sha256").read_text().strip()

    found = {
        level: [str(fault) for fault in verify_checkpoint(LocalStore(folder), "checkpoint", sha256, level)]
        for level in LEVELS
    }

    assert found["tensors"] == expected["faults"]
    assert [level for level in LEVELS if found[level]] == list(LEVELS[LEVELS.index(expected["level"]) :])


def test_the_folders_are_what_the_script_writes(tmp_path: Path) -> None:
    subprocess.run([sys.executable, DAMAGE / "make_damage.py", tmp_path], check=True)

    def content(root: Path) -> dict[str, bytes]:
        return {
            str(path.relative_to(root)): path.read_bytes()
            for folder in root.iterdir()
            for path in folder.rglob("*")
            if path.is_file() and path.name != "expected.json" and folder.name not in ("__pycache__", "data")
        }

    assert content(tmp_path) == content(DAMAGE)
    assert sorted(path.name for path in tmp_path.iterdir()) == FOLDERS


def test_without_damage_nothing_is_found(tmp_path: Path) -> None:
    subprocess.run([sys.executable, DAMAGE / "make_damage.py", tmp_path], check=True)
    folder = tmp_path / "file-missing"
    whole = tmp_path / "file-too-many" / "checkpoint"
    (whole / "left-over.bin").unlink()
    sha256 = hashlib.sha256((whole / "MANIFEST.json").read_bytes()).hexdigest()
    assert sha256 == (folder / "manifest.sha256").read_text().strip()

    found = examine(LocalStore(whole.parent), "checkpoint", sha256, "tensors")

    assert (found.faults, found.notes, found.num_tensors, found.size_bytes) == ((), (), 3, 315)
