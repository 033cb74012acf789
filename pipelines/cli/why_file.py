"""Evidence files: what `why --save` writes and `why --evidence` judges."""

import os
from pathlib import Path

from components.contracts.document import DamagedDocument
from components.diagnosis.observed import Observed
from components.errors import BadInput

_LARGEST = 64 * 1024 * 1024


def save(observed: Observed, path: Path) -> None:
    """Write the evidence; a file that is there is replaced whole. Raises BadInput when that cannot be done."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        aside.write_bytes(observed.to_bytes() + b"\n")
        aside.replace(path)
    except OSError as error:
        fix = "name a file in a folder that exists and can be written to"
        raise BadInput("EvidenceNotWritten", f"cannot write {path}: {error.strerror}", fix) from error


def load(path: Path) -> Observed:
    """Read an evidence file. Raises BadInput when it is none."""
    fix = "name a file that `why RUN --save FILE` wrote"
    try:
        if path.stat().st_size > _LARGEST:
            raise BadInput("NoEvidence", f"{path} is larger than any evidence", fix)
        data = path.read_bytes()
    except OSError as error:
        raise BadInput("NoEvidence", f"cannot read {path}: {error.strerror}", fix) from error
    try:
        return Observed.from_bytes(data, where=str(path))
    except DamagedDocument as error:
        raise BadInput("NoEvidence", error.seen, fix) from error
