"""`compile`: print the Argo Workflow of a run description, or write what a cluster is given through Git."""

from pathlib import Path

import click

from components.errors import BadInput
from pipelines.cli.options import Described, described, description_options
from pipelines.cli.targets import PlaceOptions, place_options

_FOLDER = click.Path(path_type=Path, file_okay=True)


@click.command()
@description_options
@click.option(
    "--as", "kind", type=click.Choice(["workflow", "template", "cron", "event", "all"]),
    help="What to make: the Workflow of one run; or, for Git, the WorkflowTemplate, with a CronWorkflow, with a "
    "WorkflowEventBinding and its roles, or with all.  [default: workflow]",
)  # fmt: skip
@click.option(
    "--out", type=_FOLDER, metavar="FILE|FOLDER",
    help="Write there instead of to stdout: a FILE for a Workflow (`-` is stdout), else a FOLDER.",
)  # fmt: skip
@click.option(
    "-o", "--output", type=click.Choice(["yaml", "json"]),
    help="How to write a Workflow.  [default: json when FILE ends with .json, else yaml]",
)  # fmt: skip
@click.option("--allow-tags", is_flag=True, help="With --as: take images that are named by a tag, not by their digest.")
@click.option(
    "--check", type=_FOLDER, metavar="FOLDER",
    help="Write nothing; fail when FOLDER is not what would be rendered now, and say in what.",
)  # fmt: skip
@click.option("--cluster", is_flag=True, help="Fail when what is in the cluster is not what would be rendered now.")
@place_options
def compile_(
    config: Path | None, recipe: str | None, overrides: tuple[str, ...], kind: str | None, out: Path | None,
    output: str | None, allow_tags: bool, check: Path | None, cluster: bool, place: PlaceOptions,
) -> int:  # fmt: skip
    """Print the Argo Workflow of a run description.

    With --as, write what a cluster is given through Git instead. Needs no cluster, no storage and no clock: the same
    description always gives the same bytes.
    """
    checks = check is not None or cluster
    _require_fitting(kind, out=out, output=output, allow_tags=allow_tags, checks=checks, cluster=cluster, place=place)
    source = described(config=config, recipe=recipe, overrides=overrides)
    if checks:
        from pipelines.cli.compile_check import check_render

        return check_render(source, kind, folder=check, place=place if cluster else None, tags_allowed=allow_tags)
    if kind not in (None, "workflow"):
        from pipelines.cli.compile_render import write_render

        write_render(source, str(kind), out=out, tags_allowed=allow_tags)
        return 0
    _write_workflow(source, out, output)
    return 0


def _write_workflow(source: Described, out: Path | None, output: str | None) -> None:
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


def _require_fitting(
    kind: str | None, *, out: Path | None, output: str | None, allow_tags: bool, checks: bool, cluster: bool,
    place: PlaceOptions,
) -> None:  # fmt: skip
    """Refuse options that do not go together."""
    if checks and out is not None:
        raise BadInput("Usage", "--check and --cluster write nothing, but --out is given", "leave one out")
    if checks and kind == "workflow":
        raise BadInput("Usage", "a Workflow is of one run and never committed", "use --as template, cron, event or all")
    renders = checks or kind not in (None, "workflow")
    if allow_tags and not renders:
        raise BadInput("Usage", "--allow-tags is for what is rendered", "add --as template, cron, event or all")
    if output is not None and renders:
        raise BadInput("Usage", "-o is for a Workflow; renders are YAML", "leave it out")
    if not cluster and place != PlaceOptions():
        raise BadInput("Usage", "a place on a cluster is given, but compiling needs none", "add --cluster, or leave it")
