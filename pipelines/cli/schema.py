"""`schema`: print the JSON Schema of the run description, for editors."""

from pathlib import Path

import click


@click.command()
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Write to FILE instead of stdout.")
@click.option("-o", "--output", type=click.Choice(["json"]), help="It is JSON with or without this.")
def schema(out: Path | None, output: str | None) -> None:
    """Print the JSON Schema of the run description.

    An editor that knows it completes field names and marks faults: with the YAML language server, put
    `# yaml-language-server: $schema=schema.json` on the first line of run.yaml.
    """
    import json

    from pipelines.config import TrainConfig
    from pipelines.describe import json_schema

    text = json.dumps(json_schema(TrainConfig), indent=2, ensure_ascii=False) + "\n"
    if out is None:
        click.echo(text, nl=False)
        return
    from pipelines.cli.files import write_file

    write_file(out, text, overwrite=True)
