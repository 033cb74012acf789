"""`compile`: print the Argo Workflow of a run description."""

from pathlib import Path

import click

from pipelines.cli.options import described, description_options


@click.command()
@description_options
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="FILE", help="Write to FILE instead of stdout; `-` is stdout."
)
@click.option(
    "-o", "--output", type=click.Choice(["yaml", "json"]),
    help="How to write it.  [default: json when FILE ends with .json, else yaml]",
)  # fmt: skip
def compile_(
    config: Path | None, recipe: str | None, overrides: tuple[str, ...], out: Path | None, output: str | None
) -> None:
    """Print the Argo Workflow of a run description.

    Needs no cluster, no storage and no clock: the same description always gives the same bytes.
    """
    source = described(config=config, recipe=recipe, overrides=overrides)
    from infra.local.client import home
    from pipelines.config import default_storage
    from pipelines.manifest_text import to_json, to_yaml
    from pipelines.workflow import compile_manifest

    manifest = compile_manifest(source.config, storage=default_storage(home()))
    form = output or ("json" if out is not None and out.suffix == ".json" else "yaml")
    text = to_json(manifest) if form == "json" else to_yaml(manifest)
    if out is None or str(out) == "-":
        click.echo(text, nl=False)
        return
    from pipelines.cli.files import write_file

    write_file(out, text, overwrite=True)
    click.echo(f"{out}: Workflow of {source.origin}, {len(text.encode())} bytes", err=True)
