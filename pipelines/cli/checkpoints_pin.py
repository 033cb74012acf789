"""`checkpoints pin` and `unpin`."""

import click

from components.errors import BadInput
from components.ledger import ledger as protocol
from pipelines.cli.checkpoints_place import Place, find_checkpoint, place_options
from pipelines.cli.options import output_option, print_json

_MAX_NAME = 200
"""Characters; a name stands in tables and in every later record that is read."""


@click.command()
@click.argument("checkpoint")
@place_options
@click.option("--by", metavar="NAME", help="Who wants it kept; by default you on this machine.")
@output_option
def pin(place: Place, checkpoint: str, by: str | None, output: str) -> None:
    """Keep a checkpoint whatever the retention policy says.

    Several may pin the same one; it is kept until the last pin is gone.
    """
    if by is not None and not (by.strip() and len(by) <= _MAX_NAME and by.isprintable()):
        seen = f"--by is no name: {len(by)} characters, some of them perhaps line breaks"
        raise BadInput("Usage", seen, f"write it on one line, with 1 to {_MAX_NAME} characters")
    entry = find_checkpoint(place, place.ledger.state(), checkpoint)
    protocol.pin(place.ledger, checkpoint=entry.checkpoint, by=by or _me())
    _tell(place, entry.checkpoint, output)


@click.command()
@click.argument("checkpoint")
@place_options
@click.option("--by", metavar="NAME", help="Whose pin; by default yours on this machine.")
@output_option
def unpin(place: Place, checkpoint: str, by: str | None, output: str) -> None:
    """Take a pin away."""
    entry = find_checkpoint(place, place.ledger.state(), checkpoint)
    protocol.unpin(place.ledger, checkpoint=entry.checkpoint, by=by or _me())
    _tell(place, entry.checkpoint, output)


def _me() -> str:
    from pipelines.cli.local_run import who

    return who()


def _tell(place: Place, checkpoint: str, output: str) -> None:
    pins = sorted(place.ledger.state().checkpoints[checkpoint].pins)
    if output == "json":
        print_json({"checkpoint": checkpoint, "pins": pins})
    else:
        click.echo(f"{checkpoint} is pinned by {', '.join(pins)}" if pins else f"{checkpoint} is not pinned")
