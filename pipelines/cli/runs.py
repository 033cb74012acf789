"""`runs`: the runs of this machine, or of a cluster."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from components.contracts.clock import parse_utc
from components.contracts.run_view import RunView
from components.contracts.units import format_duration
from components.errors import ArgosyError
from pipelines.cli.follow import now
from pipelines.cli.local_run import LocalRun, local_runs
from pipelines.cli.options import output_option, print_json
from pipelines.cli.present import local_time, progress, table
from pipelines.cli.targets import PlaceOptions, place_options, resolve_target

if TYPE_CHECKING:
    from pipelines.cli.cluster_run import ClusterRun


@click.command()
@click.option("--experiment", help="Only runs of this experiment.")
@place_options
@output_option
def runs(experiment: str | None, place: PlaceOptions, output: str) -> None:
    """List the runs.

    Newest first. Runs that are not over show how far they are. On a cluster: those whose Workflow is still there,
    whoever submitted them.
    """
    views, damaged = [], []
    for run in _runs(place):
        try:
            view = _view(run)
        except ArgosyError as error:
            damaged.append((run.name, str(error)))
            continue
        if experiment is None or view.experiment == experiment:
            views.append(view)
    if output == "json":
        print_json({"runs": [_row(view) for view in views], "unreadable": dict(damaged)})
        return
    rows = [("RUN", "STATE", "STARTED", "TIME", ""), *(_cells(view) for view in views)]
    click.echo("\n".join(table(rows)) if views else "there are no runs; start one with `submit`")
    for name, text in damaged:
        click.echo(f"{name}: {text}", err=True)


def _runs(place: PlaceOptions) -> "Sequence[LocalRun | ClusterRun]":
    target = resolve_target(place)
    if target.is_local:
        return local_runs()[::-1]
    from pipelines.cli.find_on_cluster import cluster_runs

    return cluster_runs(target)


def _view(run: "LocalRun | ClusterRun") -> RunView:
    brief = run.brief()
    return brief if brief.state.is_final else run.view()


def _row(view: RunView) -> dict[str, object]:
    return {
        "run": view.run, "experiment": view.experiment, "model_version": view.model_version, "target": view.target,
        "state": view.state.value, "exit_code": view.exit_code, "created_at": view.created_at,
        "started_at": view.started_at, "ended_at": view.ended_at, "step": view.step, "total_steps": view.total_steps,
    }  # fmt: skip


def _cells(view: RunView) -> tuple[str, ...]:
    seconds = ""
    if view.started_at:
        end = parse_utc(view.ended_at) if view.ended_at else now() if not view.state.is_final else None
        seconds = format_duration(round((end - parse_utc(view.started_at)).total_seconds())) if end else ""
    detail = f"exit code {view.exit_code}" if view.exit_code else progress(view)
    if view.engine is not None and view.engine.was_lost:
        detail = "its engine is gone; `resume` continues it"
    started = local_time(view.created_at) if view.created_at else ""
    return view.run, view.state.value, started, seconds, detail
