"""What can be written into a ledger: one `Change` in one `Record`, at one position, once.

    claim       a run becomes the one running run          release     it no longer is
    begin       a START gets its own term                  commit      a checkpoint is complete
    verified    every byte was re-read and is right        quarantine  it is damaged or poisoned; final
    pin, unpin  somebody wants it kept                     retire      it will be deleted; final
    deleted     its objects are gone (informational)

Writers: launch (claim, release), agent 0 (begin, commit), verify, retain, select. Readers: the same, the report and the
command line, through the fold in `state.py`.
"""

import json
from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt, PositiveInt, ValidationError

from components.contracts.checkpoint import Lineage, VerifyLevel
from components.contracts.document import Document, path_of
from components.errors import ArgosyError, ExitCode
from components.ledger.owner import Owner

RECORD_VERSION = 1


class LedgerDamaged(ArgosyError):
    """A record is missing, unreadable, foreign, from a newer version, or contradicts those before it."""

    exit_code = ExitCode.BAD_INPUT


class Claim(Document):
    """`run` is the running run; `owner` is its launcher."""

    kind: Literal["claim"] = "claim"
    run: str
    owner: Owner
    taken_from: str | None = None
    """The run whose owner was provably gone."""


class Release(Document):
    """`run` ended."""

    kind: Literal["release"] = "release"
    run: str
    outcome: str


class Begin(Document):
    """A START. From here on no earlier term can commit."""

    kind: Literal["begin"] = "begin"
    term: PositiveInt
    run: str
    generation: NonNegativeInt
    attempt: NonNegativeInt
    reason: str
    charged: bool
    """Whether this START costs one of the run's `max_restarts`."""
    source: str | None = None
    """Checkpoint id, `<experiment>@<checkpoint id>` of another experiment, or None for a fresh start."""


class Commit(Document):
    """Every file and the manifest of this checkpoint are in the store."""

    kind: Literal["commit"] = "commit"
    checkpoint: str
    term: PositiveInt
    step: NonNegativeInt
    run: str
    data_version: str
    folder: str
    """Key of the folder, relative to the storage root."""
    manifest_sha256: str
    size_bytes: NonNegativeInt
    num_files: NonNegativeInt
    world_size: PositiveInt
    parent: str | None = None
    metrics: dict[str, float] = {}
    lineage: Lineage | None = None


class Verified(Document):
    """All checks up to `level` passed."""

    kind: Literal["verified"] = "verified"
    checkpoint: str
    level: VerifyLevel


class Quarantine(Document):
    """Never resumed from, never counted. There is no way back: a copy of the bytes is a new checkpoint."""

    kind: Literal["quarantine"] = "quarantine"
    checkpoint: str
    reason: str


class Pin(Document):
    """`by` wants the checkpoint kept."""

    kind: Literal["pin"] = "pin"
    checkpoint: str
    by: str


class Unpin(Document):
    """`by` no longer does."""

    kind: Literal["unpin"] = "unpin"
    checkpoint: str
    by: str


class Retired(Document):
    """One checkpoint that goes, and why."""

    checkpoint: str
    reason: str


class Retire(Document):
    """These may be deleted from now on, by anyone, at any time; the survivors were there just before."""

    kind: Literal["retire"] = "retire"
    run: str
    checkpoints: tuple[Retired, ...]
    survivors: tuple[str, ...]


class Deleted(Document):
    """The objects of these are gone."""

    kind: Literal["deleted"] = "deleted"
    checkpoints: tuple[str, ...]


Change = Annotated[
    Claim | Release | Begin | Commit | Verified | Quarantine | Pin | Unpin | Retire | Deleted,
    Field(discriminator="kind"),
]


class Record(Document):
    """One object of the log. It names its own place, so that a copied or moved record is noticed."""

    kind: Literal["ledger-record"] = "ledger-record"
    version: Literal[1] = 1
    seq: PositiveInt
    experiment: str
    model_version: str
    nonce: str
    """Chosen by the writer: recognises its own record after an answer that never came."""
    at: str
    """UTC. Only `keep_for` looks at it, and only to keep more."""
    previous: str | None = None
    """Hex SHA-256 of the record before this one: a log is a chain, so a copy of its records can be checked against its
    end. None in the first record."""
    change: Change


def read_record(data: bytes, *, where: str) -> Record:
    """The record in `data`; `where` names the object. Raises LedgerDamaged."""
    try:
        return Record.model_validate_json(data)
    except ValidationError as error:
        version = _version_of(data)
        if version is not None and version > RECORD_VERSION:
            seen = f"{where} is a record of version {version}; this Argosy reads version {RECORD_VERSION}"
            raise LedgerDamaged("FutureRecord", seen, "use the Argosy version that wrote it, or a newer one") from error
        faults = "; ".join(f"{path_of(item['loc']) or 'record'}: {item['msg']}" for item in error.errors()[:5])
        seen = f"{where} ({len(data)} bytes) is not a readable ledger record: {faults}"
        raise LedgerDamaged(
            "TornRecord", seen, "restore this object from a copy; nothing was changed or deleted"
        ) from error


def _version_of(data: bytes) -> int | None:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    version = value.get("version") if isinstance(value, dict) else None
    return version if isinstance(version, int) else None
