"""Verifies a checkpoint wherever it lies, without a ledger: by its own manifest or digests where it has some."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace

from components.contracts.checkpoint import VerifyLevel
from components.contracts.layout import checkpoint_manifest_key
from components.integrity.examine import Examination, examine_files
from components.integrity.fault import Fault
from components.integrity.megatron import INTEGRITY_NAME, MAX_INTEGRITY_BYTES, read_integrity
from components.integrity.place import Place
from components.integrity.verify import examine


def examine_place(place: Place, level: VerifyLevel, *, workers: int | None = None) -> Examination:
    """What `examine` tells, of files that no ledger speaks of.

    Names, sizes and digests are compared with `MANIFEST.json` (Argosy's own) or `integrity.json` (Megatron's) where
    there is one; otherwise a note says that nobody recorded them.
    """
    if place.has_manifest:
        with place.store.open(checkpoint_manifest_key(place.folder)) as stream:
            sha256 = hashlib.file_digest(stream, "sha256").hexdigest()  # type: ignore[arg-type]
        return examine(place.store, place.folder, sha256, level, workers=workers)
    digests, faults, notes = _recorded(place)
    files = [replace(file, sha256=digests.get(file.path, "")) for file in place.files]
    if level == "files" or (level == "digests" and not digests):
        return Examination(tuple(faults), tuple(notes))
    found = examine_files(place.store, place.folder, files, look_inside=level != "digests", workers=workers)
    return replace(found, faults=(*faults, *found.faults), notes=(*notes, *found.notes))


def _recorded(place: Place) -> tuple[Mapping[str, str], list[Fault], list[str]]:
    """(SHA-256 by file, what is missing, what nobody can tell)."""
    have = {file.path for file in place.files}
    if INTEGRITY_NAME not in have:
        return {}, [], ["no digests were recorded: files and bytes that were never there cannot be missed"]
    digests, faults = read_integrity(place.read(INTEGRITY_NAME, MAX_INTEGRITY_BYTES + 1), path=INTEGRITY_NAME)
    faults += [
        Fault(INTEGRITY_NAME, f"names {name[:200]!r}, which is missing") for name in sorted(digests.keys() - have)
    ]
    unknown = sorted(have - digests.keys() - {INTEGRITY_NAME})
    notes = [f"{INTEGRITY_NAME} does not speak of {', '.join(unknown[:5])}"] if unknown and digests else []
    return {name: digest.lower() for name, digest in digests.items()}, faults, notes
