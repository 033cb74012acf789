"""Builders for ledgers and checkpoints: they state only what a test does not care about."""

import json
import socket
import struct
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from components.contracts.checkpoint import CheckpointManifest, VerifyLevel
from components.contracts.gang import ResumeRule
from components.contracts.layout import checkpoint_folder
from components.ledger.ledger import Ledger, begin, claim, commit, mark_verified, quarantine
from components.ledger.owner import Owner
from components.ledger.publish import publish_files, receipts_present, write_manifest
from components.ledger.select import Source, select_source
from components.storage.base import ObjectStore

EXPERIMENT, MODEL_VERSION, DATA_VERSION = "gpt", "v1", "d-0123456789abcdef"
NOW = datetime(2026, 11, 29, tzinfo=UTC)
LATEST = ResumeRule(source="latest", on_new_data="refuse")


def an_owner(**changes: object) -> Owner:
    """A launcher on this host that may or may not exist."""
    fields = {"host": socket.gethostname(), "boot_id": "boot", "pid": 1, "started": 1, "target": "local"}
    return Owner.model_validate({**fields, **changes})


def a_ledger(store: ObjectStore, **changes: str) -> Ledger:
    return Ledger(store, changes.get("experiment", EXPERIMENT), changes.get("model_version", MODEL_VERSION))


def a_begun_run(ledger: Ledger, run: str = "gpt-aaaaa", *, source: str | None = None, generation: int = 0) -> int:
    """`run` claims and begins a term, which is returned."""
    held = ledger.state().claim
    if held is None or held.run != run:
        claim(ledger, run=run, owner=an_owner(), is_gone=lambda owner: True)
    return begin(
        ledger, run=run, generation=generation, attempt=0, reason="start", charged=False, source=source,
    )  # fmt: skip


def a_stage(folder: Path, files: Mapping[str, bytes] | None = None) -> Path:
    """What a training program leaves in its staging folder, READY mark included."""
    for path, data in (files or {"model.safetensors": safetensors_bytes(), "state.json": b'{"step": 1}'}).items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    (folder / "READY").touch()
    return folder


def safetensors_bytes(values: Mapping[str, list[float]] | None = None) -> bytes:
    """A small F32 file, written here byte by byte, so that the reader is not tested against itself."""
    values = values or {"weight": [1.0, 2.0, 3.0, 4.0]}
    header, data = {}, b""
    for name, numbers in values.items():
        begin_at = len(data)
        data += struct.pack(f"<{len(numbers)}f", *numbers)
        header[name] = {"dtype": "F32", "shape": [len(numbers)], "data_offsets": [begin_at, len(data)]}
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def a_checkpoint(
    ledger: Ledger, stage: Path, *, step: int, term: int, run: str = "gpt-aaaaa", data_version: str = DATA_VERSION,
    parent: str | None = None, metrics: Mapping[str, float] | None = None, verified: VerifyLevel | None = None,
    quarantined: str = "",
) -> CheckpointManifest:  # fmt: skip
    """Published from `stage`, committed, and judged as asked."""
    folder = checkpoint_folder(ledger.experiment, ledger.model_version, data_version, step=step, term=term)
    publish_files(ledger.store, folder=folder, source=stage, node_rank=0, term=term, step=step)
    manifest, sha256 = write_manifest(
        ledger.store, receipts=receipts_present(ledger.store, folder=folder, node_ranks=[0]),
        experiment=ledger.experiment, model_version=ledger.model_version, data_version=data_version, run=run,
        term=term, step=step, world_size=1, parent=parent, metrics=metrics or {},
    )  # fmt: skip
    commit(ledger, manifest=manifest, manifest_sha256=sha256)
    if verified is not None:
        mark_verified(ledger, checkpoint=manifest.checkpoint, level=verified)
    if quarantined:
        quarantine(ledger, checkpoint=manifest.checkpoint, reason=quarantined)
    return manifest


def selected(
    ledger: Ledger, run: str, *, source: str = "latest", on_new_data: str = "refuse", data_version: str = DATA_VERSION
) -> Source:
    rule = ResumeRule.model_validate({"source": source, "on_new_data": on_new_data})
    return select_source(ledger, ledger.store, resume=rule, data_version=data_version, run=run)
