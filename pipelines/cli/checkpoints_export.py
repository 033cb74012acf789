"""`checkpoints export`: a plain folder for people downstream."""

from pathlib import Path

import click

from components.contracts.layout import ledger_folder, run_folder, shards_folder
from components.contracts.units import format_size
from components.errors import BadInput
from components.ledger.export import ExportFormat, export_checkpoint
from components.report.text import plain_line
from components.storage.local import LocalStore
from pipelines.cli.checkpoints_place import Place, find_checkpoint, place_options
from pipelines.cli.options import output_option, print_json


@click.command()
@click.argument("checkpoint")
@click.argument("folder", type=click.Path(path_type=Path))
@place_options
@click.option(
    "--format", "form", type=click.Choice(["plain", "safetensors"]), default="plain", show_default=True,
    help="plain: the files as they are; safetensors: only those, with an index over them.",
)  # fmt: skip
@click.option("--only", multiple=True, metavar="PATTERN", help="Only files that match, for example 'model*'.")
@output_option
def export(place: Place, checkpoint: str, folder: Path, form: ExportFormat, only: tuple[str, ...], output: str) -> None:
    """Copy a checkpoint to a new folder.

    Every byte is checked while it is copied, and FOLDER appears when all of it is there. Nothing is overwritten.
    """
    entry = find_checkpoint(place, place.ledger.state(), checkpoint)
    if not entry.is_usable:
        seen = f"{entry.checkpoint} is {entry.status}: {entry.reason}"
        raise BadInput("CheckpointNotUsable", seen, "`checkpoints list` shows those that can be exported")
    _require_outside(place, folder)
    manifest = export_checkpoint(place.store, entry, folder.absolute(), form=form, only=only)
    if output == "json":
        files = [file.as_json() for file in manifest.files]
        print_json({"checkpoint": entry.checkpoint, "folder": str(folder.absolute()), "files": files})
        return
    size = format_size(manifest.size_bytes)
    click.echo(f"{entry.checkpoint}: {len(manifest.files)} files, {size}, in {plain_line(str(folder))}")


def _top_folders() -> set[str]:
    return {key.partition("/")[0] for key in (shards_folder(), ledger_folder("x", "x"), run_folder("x"))}


def _require_outside(place: Place, folder: Path) -> None:
    """What lies among the storage's own objects could be taken for one of them, and be deleted as one."""
    if not isinstance(place.store, LocalStore):
        return
    root, target = place.store.root.resolve(), folder.resolve()
    if any(target.is_relative_to(root / name) for name in _top_folders()):
        seen = f"{plain_line(str(folder))} lies inside the storage {place.store.uri}"
        raise BadInput("FolderInStorage", seen, "name a folder outside of it")
