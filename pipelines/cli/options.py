"""Options and output conventions that several commands share."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from components.errors import BadInput

if TYPE_CHECKING:
    from pipelines.config import TrainConfig

Function = TypeVar("Function", bound=Callable[..., Any])


def output_option(function: Function) -> Function:
    """`-o text|json` as the argument `output`. JSON goes to stdout as one document; errors go to stderr either way."""
    return click.option(
        "-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True,
        help="What to print: text for people, one JSON document for programs.",
    )(function)  # fmt: skip


def description_options(function: Function) -> Function:
    """`-c FILE`, `--recipe NAME`, `--set a.b=value` as the arguments `config`, `recipe` and `overrides`."""
    for option in (
        click.option(
            "--set", "overrides", multiple=True, metavar="FIELD=VALUE",
            help="Change one field, for example --set launch.num_nodes=4; may be repeated.",
        ),
        click.option("--recipe", metavar="NAME", help="Start from a built-in description; see `recipes`."),
        click.option(
            "-c", "--config", type=click.Path(path_type=Path), metavar="FILE", help="The run description, a YAML file.",
        ),
    ):  # fmt: skip
        function = option(function)
    return function


def print_json(value: Any) -> None:
    """One JSON document on stdout, for programs."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


@dataclass(frozen=True)
class Described:
    """A run description and where it came from."""

    config: "TrainConfig"
    origin: str
    """`run.yaml` or `recipe tiny`: for people."""
    workdir: Path
    """Folder that relative paths of the description start from."""


def described(*, config: Path | None, recipe: str | None, overrides: Sequence[str]) -> Described:
    """The description that `description_options` ask for. Raises BadInput with every fault."""
    from pipelines.config import load_config
    from pipelines.recipes import DEFAULT_RECIPE

    if config is not None and recipe is not None:
        raise BadInput("Usage", "both -c and --recipe are given", "choose one; --set changes single fields of either")
    loaded = load_config(config, recipe=recipe, overrides=overrides)
    workdir = config.absolute().parent if config is not None else Path.cwd()
    if "{{" in str(workdir):
        raise BadInput("Usage", f"the folder {workdir} has braces in its name", "Argo would substitute them; rename it")
    return Described(loaded, str(config) if config is not None else f"recipe {recipe or DEFAULT_RECIPE}", workdir)
