"""`recipes`: list the built-in run descriptions, or print one."""

import click

from pipelines.cli.options import output_option, print_json


@click.command()
@click.argument("name", required=False)
@output_option
def recipes(name: str | None, output: str) -> None:
    """List the built-in run descriptions, or print one of them.

    NAME is the one to print, as a complete run.yaml: every field, with its meaning.
    """
    from pipelines.recipes import DEFAULT_RECIPE, RECIPES, find_recipe, summary

    if name is not None:
        from pipelines.run_yaml import run_yaml

        name, config = find_recipe(name)
        if output == "json":
            print_json({"name": name, "summary": summary(name), "description": config.as_json()})
        else:
            click.echo(run_yaml(config, title=f"Recipe {name}. {summary(name)}"), nl=False)
        return
    if output == "json":
        print_json([{"name": item, "summary": summary(item), "default": item == DEFAULT_RECIPE} for item in RECIPES])
        return
    for item in RECIPES:
        default = " (default)" if item == DEFAULT_RECIPE else ""
        click.echo(f"{item + default:<18} {summary(item)}")
