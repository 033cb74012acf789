"""What made this run's checkpoints: the description, the image, the program's file. For people only."""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from components.contracts.canonical import digest_of
from components.contracts.checkpoint import Lineage
from components.contracts.gang import GangSpec
from components.contracts.layout import run_record_key
from components.contracts.records import RunRecord
from components.errors import ArgosyError
from components.runtime.stage import image_fields
from components.storage.base import ObjectStore

_MAX_PROGRAM_BYTES = 16 << 20


def lineage_of(spec: GangSpec, store: ObjectStore) -> Lineage:
    """As much of it as can be found out; a missing run record is no reason to fail a commit."""
    key = run_record_key(spec.run)
    try:
        description = RunRecord.from_bytes(store.read(key), where=store.uri_of(key)).description
    except ArgosyError:
        description = None
    named = (description or {}).get("image")
    return Lineage(
        config_digest=digest_of(description) if description else None,
        image=named if isinstance(named, str) and named else image_fields().get("image"),
        code=f"sha256:{spec.code}" if spec.code else program_digest(spec.command, Path(spec.workdir or os.curdir)),
    )


def program_digest(command: Sequence[str], workdir: Path) -> str | None:
    """`train.py sha256:<hex>` of the first argument that is a file; None for a module or an installed command."""
    for argument in command[1:]:
        path = workdir / argument
        try:
            if path.is_file() and path.stat().st_size <= _MAX_PROGRAM_BYTES:
                return f"{path.name} sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"
        except (OSError, ValueError):
            continue
    return None
