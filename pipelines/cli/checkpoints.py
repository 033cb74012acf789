"""`checkpoints`: what the ledger of an experiment holds, and one checkpoint in full."""

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from components.contracts import layout
from components.contracts.checkpoint import CheckpointManifest
from components.contracts.document import DamagedDocument
from components.contracts.names import Identifier
from components.contracts.retention import RetentionPlan
from components.contracts.run_view import CheckpointRow, ClaimView
from components.contracts.units import format_size
from components.errors import BadInput
from components.ledger.ledger import Ledger
from components.report.run_view import read_checkpoints
from components.report.text import plain_line
from components.storage.base import ObjectNotFound, ObjectStore, open_store
from components.storage.location import StoreOptions
from pipelines.cli.options import output_option, print_json
from pipelines.cli.present import local_time, table

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class _Place:
    """Whose checkpoints."""

    store: ObjectStore
    experiment: str
    model_version: str

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.store, self.experiment, self.model_version)


def _place_options(function: Function) -> Function:
    for option in (
        click.option("--storage", metavar="URI", help="Root of the storage; by default the latest run's, else ours."),
        click.option("--model-version", metavar="NAME", help="By default v1, or what -c or the latest run says."),
        click.option("--experiment", metavar="NAME", help="By default what -c or the latest run says."),
        click.option("-c", "--config", type=click.Path(path_type=Path), metavar="FILE", help="The run description."),
    ):
        function = option(function)
    return function


@click.group()
def checkpoints() -> None:
    """List and show an experiment's checkpoints."""


@checkpoints.command("list")
@_place_options
@click.option("--all", "all_", is_flag=True, help="Also those that were retired.")
@output_option
def list_(
    config: Path | None, experiment: str | None, model_version: str | None, storage: str | None, all_: bool, output: str
) -> None:
    """List an experiment's checkpoints, newest first.

    Without options: those of the latest run's experiment.
    """
    place = _place(config, experiment, model_version, storage)
    rows, claim = read_checkpoints(place.ledger)
    shown = [row for row in rows if all_ or row.status != "retired"]
    reasons = _kept_reasons(place.store, rows)
    if output == "json":
        print_json(
            {
                "experiment": place.experiment, "model_version": place.model_version, "storage": place.store.uri,
                "running": claim.as_json() if claim else None,
                "checkpoints": [{**row.as_json(), "kept_because": reasons.get(row.checkpoint, "")} for row in shown],
            }
        )  # fmt: skip
        return
    click.echo("\n".join(_list_lines(place, shown, len(rows) - len(shown), reasons, claim)))


@checkpoints.command()
@click.argument("checkpoint", required=False)
@_place_options
@output_option
def show(
    checkpoint: str | None, config: Path | None, experiment: str | None, model_version: str | None,
    storage: str | None, output: str,
) -> None:  # fmt: skip
    """Show one checkpoint in full.

    CHECKPOINT is an id or a step; without it, the newest one that is verified.
    """
    place = _place(config, experiment, model_version, storage)
    rows, _ = read_checkpoints(place.ledger)
    row = _find(place, rows, checkpoint)
    manifest = _manifest(place.store, row)
    reason = _kept_reasons(place.store, rows).get(row.checkpoint, "")
    if output == "json":
        files = manifest.as_json() if manifest else None
        print_json({**row.as_json(), "kept_because": reason, "manifest": files})
        return
    click.echo("\n".join(_show_lines(row, manifest, reason)))


def _place(config: Path | None, experiment: str | None, model_version: str | None, storage: str | None) -> _Place:
    from infra.local.client import home

    default_storage = f"file://{home()}/storage"
    options = StoreOptions()
    if config is not None:
        from pipelines.config import load_config

        loaded = load_config(config)
        experiment = experiment or loaded.experiment
        model_version, storage = model_version or loaded.model_version, storage or loaded.storage
        options = loaded.store_options
    elif experiment is None:
        from pipelines.cli.local_run import find_run

        info = find_run(None).info
        experiment, model_version = info.experiment, model_version or info.model_version
        storage = storage or info.storage
        options = StoreOptions.of_description(info.description.get("storage_options"))
    model_version = model_version or "v1"
    _require_names(experiment, model_version)
    return _Place(open_store(storage or default_storage, options, is_patient=False), experiment, model_version)


def _require_names(experiment: str, model_version: str) -> None:
    from pydantic import TypeAdapter, ValidationError

    for option, name in (("--experiment", experiment), ("--model-version", model_version)):
        try:
            TypeAdapter(Identifier).validate_python(name)
        except ValidationError as error:
            raise BadInput(
                "Usage", f"{option} is {plain_line(name)!r}", "use lowercase letters, digits, - . _"
            ) from error


def _kept_reasons(store: ObjectStore, rows: Iterable[CheckpointRow]) -> dict[str, str]:
    """Why each one is kept, from the plan of the run that committed last and left one."""
    for run in dict.fromkeys(row.run for row in rows):
        key = layout.retention_plan_key(run)
        try:
            plan = RetentionPlan.from_bytes(store.read(key), where=store.uri_of(key))
        except (ObjectNotFound, DamagedDocument):
            continue
        return {item.checkpoint: item.reason for item in plan.decisions if item.action == "keep"}
    return {}


def _find(place: _Place, rows: tuple[CheckpointRow, ...], name: str | None) -> CheckpointRow:
    where = f"{place.experiment}/{place.model_version}"
    if name is None:
        row = next((row for row in rows if row.status == "verified"), None) or next(iter(rows), None)
        if row is None:
            raise BadInput("NoCheckpoints", f"{where} has no checkpoints in {place.store.uri}", "`submit` makes some")
        return row
    # Of several checkpoints of one step the newest still usable one is meant.
    matching = [row for row in rows if name in (row.checkpoint, str(row.step), f"step-{row.step}")]
    usable = [row for row in matching if row.status in ("verified", "committed")]
    if matching:
        return (usable or matching)[0]
    near = difflib.get_close_matches(name, [row.checkpoint for row in rows], n=3, cutoff=0.5)
    fix = f"did you mean {' or '.join(near)}?" if near else "`checkpoints list --all` lists them"
    raise BadInput("NoSuchCheckpoint", f"{where} has no checkpoint {plain_line(name)} in {place.store.uri}", fix)


def _manifest(store: ObjectStore, row: CheckpointRow) -> CheckpointManifest | None:
    folder = row.uri.removeprefix(f"{store.uri}/")
    key = layout.checkpoint_manifest_key(folder)
    try:
        return CheckpointManifest.from_bytes(store.read(key), where=store.uri_of(key))
    except ObjectNotFound:
        return None


def _list_lines(
    place: _Place, rows: list[CheckpointRow], num_retired: int, reasons: dict[str, str], claim: ClaimView | None
) -> list[str]:
    where = f"{place.experiment} {place.model_version} in {place.store.uri}"
    if not rows:
        lines = [f"no checkpoints of {where}"]
    else:
        cells = [("CHECKPOINT", "STEP", "TERM", "STATUS", "METRICS", "SIZE", "RUN", "KEPT BECAUSE")]
        cells += [
            (
                row.checkpoint, str(row.step), str(row.term), _status(row), _metrics(row),
                format_size(row.size_bytes), row.run, _reason(row, reasons),
            )
            for row in rows
        ]  # fmt: skip
        lines = [where, "", *table(cells)]
    if num_retired:
        lines.append(f"and {num_retired} retired; --all shows them")
    if claim:
        lines.append(f"being trained by {claim.run} ({claim.owner}) since {local_time(claim.since)}")
    return lines


def _show_lines(row: CheckpointRow, manifest: CheckpointManifest | None, reason: str) -> list[str]:
    facts = [
        ("checkpoint", row.checkpoint), ("status", _status(row)), ("step", str(row.step)), ("term", str(row.term)),
        ("run", row.run), ("data version", row.data_version), ("metrics", _metrics(row)),
        ("committed", local_time(row.committed_at)), ("size", format_size(row.size_bytes)), ("folder", row.uri),
        ("kept because", reason), ("reason", plain_line(row.reason)), ("pinned", "yes" if row.pinned else ""),
    ]  # fmt: skip
    if manifest is not None:
        facts += [("world size", str(manifest.world_size)), ("resumed from", manifest.parent or "nothing")]
    lines = table([fact for fact in facts if fact[1]])
    if manifest is None:
        return [*lines, "", "its files are gone"]
    files = [("FILE", "SIZE", "SHA-256")]
    files += [(plain_line(file.path), format_size(file.size_bytes), file.sha256) for file in manifest.files]
    return [*lines, "", *table(files)]


def _status(row: CheckpointRow) -> str:
    return f"verified ({row.level})" if row.status == "verified" else row.status


def _metrics(row: CheckpointRow) -> str:
    return ", ".join(f"{name} {value:.4g}" for name, value in sorted(row.metrics.items()))


def _reason(row: CheckpointRow, reasons: dict[str, str]) -> str:
    text = reasons.get(row.checkpoint, "") or plain_line(row.reason)
    return ", ".join(part for part in ("pinned" if row.pinned else "", text) if part)
