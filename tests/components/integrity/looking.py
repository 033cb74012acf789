"""Looks at files in a folder as the verifier does, without manifest or ledger."""

from pathlib import Path

from components.integrity.examine import Examination, examine_files
from components.integrity.one_pass import Wanted
from components.storage.local import LocalStore

SOUND = Path(__file__).parents[3] / "tests" / "sound"


def look(folder: Path, *, workers: int = 1) -> Examination:
    """Everything below `folder`, at level tensors; no digest is known."""
    files = [
        Wanted(path.relative_to(folder).as_posix(), path.stat().st_size)
        for path in sorted(folder.rglob("*")) if path.is_file()
    ]  # fmt: skip
    return examine_files(LocalStore(folder.parent), folder.name, files, look_inside=True, workers=workers)


def told(folder: Path) -> list[str]:
    return [str(fault) for fault in look(folder).faults]
