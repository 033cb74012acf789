"""`checkpoints show`: one checkpoint in full, with what made it."""

from typing import Any

import click

from components.contracts import layout
from components.contracts.checkpoint import CheckpointManifest
from components.contracts.document import DamagedDocument
from components.contracts.units import format_size
from components.ledger.ledger import CheckpointEntry, LedgerState
from components.report.run_view import read_checkpoints
from components.report.text import plain_line
from components.storage.base import ObjectNotFound, ObjectStore
from pipelines.cli.checkpoints_list import metrics_text, status_text
from pipelines.cli.checkpoints_place import Place, find_checkpoint, place_options
from pipelines.cli.checkpoints_policy import kept_reasons
from pipelines.cli.options import output_option, print_json
from pipelines.cli.present import local_time, table

_NUM_PARENTS = 20


@click.command()
@click.argument("checkpoint", required=False)
@place_options
@output_option
def show(place: Place, checkpoint: str | None, output: str) -> None:
    """Show one checkpoint in full.

    CHECKPOINT is an id or a step; without it, the newest one that is verified.
    """
    state = place.ledger.state()
    entry = find_checkpoint(place, state, checkpoint)
    manifest = read_manifest_of(place.store, entry)
    reason = plain_line(kept_reasons(place, state).get(entry.checkpoint, ""))
    parents = parents_of(state, entry)
    if output == "json":
        row = next(row for row in read_checkpoints(place.ledger)[0] if row.checkpoint == entry.checkpoint)
        lineage = {
            **(entry.lineage.as_json() if entry.lineage else {}), "data_version": entry.data_version, "run": entry.run,
            "world_size": entry.world_size, "parents": parents,
        }  # fmt: skip
        body: dict[str, Any] = {"kept_because": reason, "pins": sorted(entry.pins), "lineage": lineage}
        print_json({**row.as_json(), **body, "manifest": manifest.as_json() if manifest else None})
        return
    click.echo("\n".join(_lines(place, entry, manifest, reason, parents)))


def read_manifest_of(store: ObjectStore, entry: CheckpointEntry) -> CheckpointManifest | None:
    """Its manifest, or None when that is gone or damaged, which `verify` says in full."""
    key = layout.checkpoint_manifest_key(entry.folder)
    try:
        return CheckpointManifest.from_bytes(store.read(key), where=store.uri_of(key))
    except (ObjectNotFound, DamagedDocument):
        return None


def parents_of(state: LedgerState, entry: CheckpointEntry) -> list[str]:
    """What it was resumed from, what that was resumed from, and so on; the last may lie in another experiment."""
    chain: list[str] = []
    parent = entry.parent
    while parent is not None and parent not in chain and len(chain) < _NUM_PARENTS:
        chain.append(parent)
        before = state.checkpoints.get(parent)
        parent = before.parent if before is not None else None
    return chain


def _lines(
    place: Place, entry: CheckpointEntry, manifest: CheckpointManifest | None, reason: str, parents: list[str]
) -> list[str]:
    lineage = entry.lineage
    facts = [
        ("checkpoint", entry.checkpoint), ("status", status_text(entry.status, entry.level)), ("step", str(entry.step)),
        ("term", str(entry.term)), ("metrics", metrics_text(dict(entry.metrics))),
        ("committed", local_time(entry.committed_at)),
        ("verified", local_time(entry.verified_at) if entry.verified_at else ""),
        ("size", format_size(entry.size_bytes)), ("folder", place.store.uri_of(entry.folder)),
        ("kept because", reason), ("reason", plain_line(entry.reason)),
        ("pinned by", plain_line(", ".join(sorted(entry.pins)))),
        ("run", entry.run), ("data version", entry.data_version), ("world size", str(entry.world_size)),
        ("config digest", lineage.config_digest or "" if lineage else ""),
        ("image", plain_line(lineage.image or "") if lineage else ""),
        ("code", plain_line(lineage.code or "") if lineage else ""),
        ("resumed from", plain_line(" ← ".join(parents)) or "nothing"),
    ]  # fmt: skip
    lines = table([fact for fact in facts if fact[1]])
    if manifest is None:
        return [*lines, "", "its manifest is gone or cannot be read"]
    files = [("FILE", "SIZE", "SHA-256")]
    files += [(plain_line(file.path), format_size(file.size_bytes), file.sha256) for file in manifest.files]
    return [*lines, "", *table(files)]
