"""`validate`: check a run description and list every fault in it."""

from pathlib import Path

import click

from pipelines.cli.options import described, description_options, output_option, print_json


@click.command()
@description_options
@output_option
def validate(config: Path | None, recipe: str | None, overrides: tuple[str, ...], output: str) -> None:
    """Check a run description and list every fault in it.

    Needs no cluster and starts nothing. Exit code 78 when there are faults.
    """
    source = described(config=config, recipe=recipe, overrides=overrides)
    if output == "json":
        print_json({"valid": True, "source": source.origin, "description": source.config.as_json()})
    else:
        click.echo(f"{source.origin}: valid, experiment {source.config.experiment}")
