"""`submit`: start a run and follow it to its end."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from components.contracts.names import new_run_name
from components.errors import BadInput
from pipelines.cli.options import Described, described, description_options, output_option, print_json
from pipelines.cli.targets import PlaceOptions, Target, place_options, resolve_target

if TYPE_CHECKING:
    from pipelines.config import TrainConfig


@click.command()
@description_options
@click.option("--from-template", metavar="NAME", help="Submit a run of this WorkflowTemplate of the cluster instead.")
@click.option(
    "-p",
    "--parameter",
    "parameters",
    multiple=True,
    metavar="NAME=VALUE",
    help="With --from-template: a parameter of the template; may be repeated.",
)
@place_options
@click.option("--detach", is_flag=True, help="Return once the run has started; it goes on by itself.")
@click.option("--dry-run", is_flag=True, help="Print the plan and the manifest; write and start nothing.")
@output_option
def submit(
    config: Path | None, recipe: str | None, overrides: tuple[str, ...], from_template: str | None,
    parameters: tuple[str, ...], place: PlaceOptions, detach: bool, dry_run: bool, output: str,
) -> int:  # fmt: skip
    """Start a run and follow it to its end.

    The exit code is the run's. Ctrl-C stops the run gracefully (the ranks may write a checkpoint), a second one kills
    it; `resume` continues it either way.
    """
    target = resolve_target(place)
    if from_template is not None or parameters:
        given = _template_parameters(
            from_template, parameters, target, is_described=bool(config or recipe or overrides)
        )
        if dry_run:
            raise BadInput("Usage", "--dry-run prints what is compiled; a template is compiled already", "leave it out")
        from pipelines.cli.cluster_submit import submit_template

        return submit_template(str(from_template), given, target, detach=detach, output=output)
    if target.is_local:
        _mention_clusters()
    source = described(config=config, recipe=recipe, overrides=overrides)
    from infra.local import client
    from pipelines.config import default_storage
    from pipelines.workflow import compile_manifest

    storage = source.config.storage or default_storage(client.home())
    manifest = compile_manifest(source.config, storage=storage)
    if dry_run:
        _print_plan(manifest, source, target, output)
        return 0
    if not target.is_local:
        from pipelines.cli.cluster_submit import submit_description

        return submit_description(source, manifest, target, storage=storage, detach=detach, output=output)
    _require_free(source.config, storage)
    code = _ship_code(source, storage)
    from pipelines.cli.follow import announce, detached, follow_to_end
    from pipelines.cli.local_run import LocalRun

    run = new_run_name(source.config.experiment)
    folder = client.create_run(
        home=client.home(), manifest=manifest, run=run, experiment=source.config.experiment,
        model_version=source.config.model_version,
        parameters={"storage": storage, "run": run, "workdir": str(source.workdir), **code},
        description=source.config.as_json(), argv=sys.argv,
    )  # fmt: skip
    try:
        announce(f"target local: run {run} of {source.origin}, storage {storage}", output)
        go_on = detached if detach else follow_to_end
        return go_on(LocalRun(folder), output, start=lambda: client.start_engine(folder))
    except BaseException:
        client.withdraw_run(folder)  # Ctrl-C, or nobody to print to, before it could start
        raise


def _mention_clusters() -> None:
    """Say how a cluster that is configured, but not chosen, is used."""
    for name, target in (("KUBECONFIG", "kubernetes"), ("ARGO_SERVER", "argo-server")):
        if os.environ.get(name):
            click.echo(
                f"{name} is set but not used: this run stays on this machine; --target {target} uses it", err=True
            )


def _template_parameters(
    template: str | None, parameters: tuple[str, ...], target: Target, *, is_described: bool
) -> dict[str, str]:
    """NAME=VALUE as a mapping. Raises BadInput for options that do not go together."""
    if template is None:
        raise BadInput("Usage", "-p is a parameter of a template", "add --from-template NAME, or use --set")
    if is_described:
        raise BadInput("Usage", "a template is a description already", "leave out -c, --recipe and --set")
    if target.is_local:
        raise BadInput("Usage", "templates are on a cluster", "add --target kubernetes or --target argo-server")
    wrong = [text for text in parameters if not text.partition("=")[1] or not text.partition("=")[0]]
    if wrong:
        raise BadInput("Usage", f"-p {wrong[0]} is not an assignment", "write -p name=value")
    return {text.partition("=")[0]: text.partition("=")[2] for text in parameters}


def _require_free(config: "TrainConfig", storage: str) -> None:
    """Refuse early what the launch stage would refuse: a second run of the same experiment and model version."""
    from components.contracts.document import DamagedDocument
    from components.ledger.ledger import Ledger, RunActive, is_gone
    from components.storage.base import open_store
    from pipelines.cli.local_run import local_runs

    store = open_store(storage, config.store_options, is_patient=False)
    held = Ledger(store, config.experiment, config.model_version).state().claim
    if held is not None and not is_gone(held.owner):
        raise RunActive(held, experiment=config.experiment, model_version=config.model_version)
    # Before its launch stage a run holds no claim yet.
    for run in reversed(local_runs()):
        if not run.engine_alive():
            continue
        try:
            info = run.info
        except DamagedDocument:
            continue  # whoever opens that run is told; if it is of this experiment, the launch stage refuses it
        if (info.experiment, info.model_version, info.storage) == (config.experiment, config.model_version, storage):
            raise BadInput(
                "RunActive",
                f"run {run.name} (engine {run.engine_view().pid} on this machine) has been running "
                f"{config.experiment}/{config.model_version} since {info.created_at}",
                f"wait for it, stop it with `stop {run.name}`, or choose another experiment or model_version",
            )


def _ship_code(source: Described, storage: str) -> dict[str, str]:
    from components.storage.base import open_store
    from pipelines.cli.ship import ship_code

    return ship_code(source.config, open_store(storage, source.config.store_options), workdir=source.workdir)


def _print_plan(manifest: dict[str, Any], source: Described, target: Target, output: str) -> None:
    from pipelines.cli.plan import plan_lines, plan_of
    from pipelines.manifest_text import to_yaml

    plan = plan_of(manifest, source.config, is_recipe=source.origin.startswith("recipe "))
    if output == "json":
        print_json({"target": target.name, "workdir": str(source.workdir), "plan": plan, "manifest": manifest})
        return
    # The plan as comments: what is printed stays the manifest, and can be used as one.
    title = f"Plan of {source.origin} on target {target.name}, in {source.workdir}; nothing was written or started"
    lines = [title, *plan_lines(plan)]
    click.echo("\n".join(f"# {line}".rstrip() for line in lines))
    click.echo(to_yaml(manifest), nl=False)
