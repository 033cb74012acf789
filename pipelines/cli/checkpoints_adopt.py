"""`checkpoints adopt`: a checkpoint of another program becomes one of ours."""

from dataclasses import asdict

import click

from components.contracts.units import format_size
from components.report.text import plain_line
from pipelines.cli.checkpoints_place import Place, place_options
from pipelines.cli.options import output_option, print_json


@click.command()
@click.argument("where")
@place_options
@click.option("--data-version", metavar="ID", help="The data it was trained on; by default `unknown`.")
@click.option("--step", type=click.IntRange(min=0), help="Its step; by default read from its name or its files.")
@click.option("--workers", type=click.IntRange(min=1), help="Files copied at a time; by default one a core, at most 8.")
@output_option
def adopt(
    place: Place, where: str, data_version: str | None, step: int | None, workers: int | None, output: str
) -> None:
    """Take in a checkpoint that another program wrote.

    WHERE is a folder, a file or s3://…: torch .pt, distributed checkpoints, safetensors, HF Trainer, Lightning,
    Megatron or torchtitan. It is copied, verified and committed; the original is only read.
    """
    from components.adopt.adopt import adopt as take_in

    adopted = take_in(
        place.store, where, experiment=place.experiment, model_version=place.model_version, data_version=data_version,
        step=step, workers=workers, options=place.options,
        on_progress=lambda text: click.echo(plain_line(text), err=True),
    )  # fmt: skip
    if output == "json":
        print_json({**asdict(adopted), "uri": place.store.uri_of(adopted.folder)})
        return
    for note in adopted.notes:
        click.echo(f"note: {plain_line(note)}")
    click.echo(
        f"{adopted.checkpoint} is verified (tensors), taken in as {adopted.layout}: {adopted.num_files} files,"
        f" {format_size(adopted.size_bytes)}, {adopted.num_tensors} tensors\n{place.store.uri_of(adopted.folder)}"
    )
