"""`checkpoints verify`: the verify stage for one checkpoint, by hand."""

import io
from typing import Any, get_args

import click

from components.contracts.checkpoint import VerifyLevel
from components.contracts.units import format_size
from components.errors import BadInput
from components.runtime.log import Log
from pipelines.cli.checkpoints_place import Place, find_checkpoint, place_options
from pipelines.cli.options import output_option, print_json


@click.command()
@click.argument("checkpoint", required=False)
@place_options
@click.option(
    "--level", type=click.Choice(get_args(VerifyLevel)), default="tensors", show_default=True,
    help="How deep to look; each level includes those before it.",
)  # fmt: skip
@click.option("--workers", type=click.IntRange(min=1), help="Files read at a time; by default one a core, at most 8.")
@output_option
def verify(place: Place, checkpoint: str | None, level: VerifyLevel, workers: int | None, output: str) -> None:
    """Read a checkpoint through and record the verdict.

    CHECKPOINT is an id or a step; without it, the newest one that is verified, else the newest that is committed. A
    damaged one is quarantined for good, and the exit code is 96.
    """
    from components.verify.run import verify_entry

    state = place.ledger.state()
    if checkpoint is None and state.checkpoints and not state.newest_first("verified", "committed"):
        seen = f"every checkpoint of {place.name} is quarantined or retired"
        raise BadInput("NoCheckpoints", seen, "that is final; `checkpoints list` says why")
    entry = find_checkpoint(place, state, checkpoint)
    if not entry.is_usable:
        seen = f"{entry.checkpoint} is {entry.status}: {entry.reason}"
        raise BadInput("CheckpointNotUsable", seen, "that is final; verify another one, `checkpoints list` shows them")
    found = verify_entry(place.ledger, entry, level, Log({}, io.StringIO()), workers=workers)
    if output == "json":
        body: dict[str, Any] = {"checkpoint": entry.checkpoint, "verdict": "verified", "level": level}
        counts = {"num_files": entry.num_files, "size_bytes": found.size_bytes, "num_tensors": found.num_tensors}
        print_json({**body, **counts, "notes": list(found.notes)})
        return
    for note in found.notes:
        click.echo(f"note: {note}")
    click.echo(
        f"{entry.checkpoint} is verified ({level}): {entry.num_files} files, {format_size(found.size_bytes)} read,"
        f" {found.num_tensors} tensors"
    )
