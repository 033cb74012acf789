"""`init`: write a commented run.yaml to start from."""

from pathlib import Path

import click

from pipelines.cli.options import output_option, print_json


@click.command()
@click.argument("file", type=click.Path(path_type=Path), default=Path("run.yaml"))
@click.option("--recipe", metavar="NAME", help="The built-in description to start from; see `recipes`.")
@click.option("--experiment", metavar="NAME", help="The experiment's name.  [default: the recipe's]")
@output_option
def init(file: Path, recipe: str | None, experiment: str | None, output: str) -> None:
    """Write a commented run.yaml to start from.

    Holds every field with its meaning and its value. An existing FILE is never overwritten.
    """
    from pipelines.cli.files import write_file
    from pipelines.config import load_config
    from pipelines.recipes import DEFAULT_RECIPE, summary
    from pipelines.run_yaml import run_yaml

    name = recipe or DEFAULT_RECIPE
    overrides = [f"experiment={experiment}"] if experiment is not None else []
    config = load_config(recipe=name, overrides=overrides)
    write_file(file, run_yaml(config, title=f"Made from recipe {name}. {summary(name)}"), overwrite=False)
    if output == "json":
        print_json({"file": str(file), "recipe": name, "experiment": config.experiment})
        return
    click.echo(f"{file}: written; edit it, then: python pipelines/train.py submit -c {file}")
