"""`checkpoints diff`: what changed from one checkpoint to another."""

from collections.abc import Mapping
from typing import Any

import click

from components.contracts.checkpoint import CheckpointManifest
from components.contracts.units import format_size
from components.errors import BadInput
from components.integrity.compare import Previous
from components.integrity.verify import types_of
from components.ledger.ledger import CheckpointEntry
from components.report.text import plain_line
from pipelines.cli.checkpoints_place import Place, find_checkpoint, place_options
from pipelines.cli.checkpoints_show import read_manifest_of
from pipelines.cli.options import output_option, print_json
from pipelines.cli.present import table

_NUM_SHOWN = 40


@click.command()
@click.argument("old")
@click.argument("new")
@place_options
@output_option
def diff(place: Place, old: str, new: str, output: str) -> None:
    """Compare two checkpoints.

    Files by their digests, tensors by dtype and shape, metrics, and what made them. Only headers are read.
    """
    state = place.ledger.state()
    pair = find_checkpoint(place, state, old), find_checkpoint(place, state, new)
    manifests = [_manifest(place, entry) for entry in pair]
    tensors = [_tensors(place, entry) for entry in pair]
    sections: dict[str, dict[str, tuple[Any, Any]]] = {
        "made by": changed(*(_facts(entry) for entry in pair)),
        "metrics": changed(*(dict(entry.metrics) for entry in pair)),
        "files": changed(*({file.path: _file(file) for file in manifest.files} for manifest in manifests)),
        "tensors": changed(*tensors),
    }
    same_files = len({file.path for file in manifests[0].files} & {file.path for file in manifests[1].files})
    if output == "json":
        body = {name: _as_json(items) for name, items in sections.items()}
        print_json({"old": pair[0].checkpoint, "new": pair[1].checkpoint, **body})
        return
    lines = [f"{pair[0].checkpoint} -> {pair[1].checkpoint}"]
    for name, items in sections.items():
        count = {"files": same_files, "tensors": len(tensors[0].keys() & tensors[1].keys())}.get(name)
        lines += _section(name, items, count)
    click.echo("\n".join(lines))


def changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """What differs, by name; None stands for what is not there."""
    names = sorted(old.keys() | new.keys())
    return {name: (old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name)}


def _manifest(place: Place, entry: CheckpointEntry) -> CheckpointManifest:
    manifest = read_manifest_of(place.store, entry)
    if manifest is None:
        seen = f"the manifest of {entry.checkpoint}, which is {entry.status}, is gone or cannot be read"
        raise BadInput("NoManifest", seen, "compare those that `checkpoints list` shows")
    return manifest


def _tensors(place: Place, entry: CheckpointEntry) -> dict[str, str]:
    found = types_of(place.store, Previous(entry.checkpoint, entry.folder, entry.manifest_sha256, is_same_run=True))
    return {name: tensor.spelled for name, tensor in found.items()}


def _facts(entry: CheckpointEntry) -> dict[str, Any]:
    lineage = entry.lineage.as_json() if entry.lineage else {}
    names = ("run", "data_version", "world_size", "parent", "step")
    return {**{name: getattr(entry, name) for name in names}, **lineage}


def _file(file: Any) -> str:
    return f"{file.sha256[:12]} {format_size(file.size_bytes)}"


def _as_json(items: Mapping[str, tuple[Any, Any]]) -> dict[str, dict[str, Any]]:
    return {name: {"old": old, "new": new} for name, (old, new) in items.items()}


def _section(name: str, items: Mapping[str, tuple[Any, Any]], in_both: int | None) -> list[str]:
    of = f" of {in_both} in both" if in_both is not None else ""
    differing = sum(None not in pair for pair in items.values()) if in_both is not None else len(items)
    lines = ["", f"{name}: {f'{differing}{of} differ' if items else 'the same'}"]
    rows = [(f"  {plain_line(key)}", _shown(old), "->", _shown(new)) for key, (old, new) in items.items()]
    lines += table(rows[:_NUM_SHOWN])
    return [*lines, f"  and {len(rows) - _NUM_SHOWN} more"] if len(rows) > _NUM_SHOWN else lines


def _shown(value: Any) -> str:
    return "-" if value is None else plain_line(f"{value:.6g}" if isinstance(value, float) else str(value))
