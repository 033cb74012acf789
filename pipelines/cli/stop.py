"""`stop`: ask a run to stop, or kill it."""

import time

import click

from components.errors import BadInput, Transient
from pipelines.cli.find import find_run
from pipelines.cli.local_run import LocalRun
from pipelines.cli.options import output_option, print_json
from pipelines.cli.targets import PlaceOptions, place_options

_KILL_SECONDS = 30.0
"""How long a killed run may take to be gone."""


@click.command()
@click.argument("run", required=False)
@click.option("--force", is_flag=True, help="Kill every process of the run now, without a last checkpoint.")
@place_options
@output_option
def stop(run: str | None, force: bool, place: PlaceOptions, output: str) -> None:
    """Stop a run gracefully; --force kills it.

    RUN is a run's name; without it, the latest run. The ranks may write a checkpoint first (launch.limits.stop);
    `resume` continues the run later. Returns as soon as the stop is asked for, with --force when the run is gone.
    """
    found = find_run(run, place)
    view = found.brief()
    if not found.engine_alive():
        if view.state.is_final and view.engine is not None and view.engine.is_over:
            raise BadInput("NotRunning", f"run {found.name} has ended already ({view.state.value})", "nothing to stop")
        raise BadInput(
            "NotRunning",
            f"run {found.name} has {found.engine_name}, so nothing of it runs",
            f"`resume {found.name}` continues it",
        )
    force = force or (view.stop is not None and view.stop.force)  # a plain stop takes back no kill
    found.stop(force=force)
    if force and isinstance(found, LocalRun):  # on a cluster Argo and the janitor see to it
        _wait_until_gone(found)
    if output == "json":
        print_json({"run": found.name, "stopped": force, "force": force})
    elif force and not isinstance(found, LocalRun):
        click.echo(f"{found.name} is being killed; `resume {found.name}` continues it from its newest good checkpoint")
    elif force:
        click.echo(f"{found.name} was killed; `resume {found.name}` continues it from its newest good checkpoint")
    else:
        name = found.name
        click.echo(f"{name} is stopping; `status {name}` shows how far it is, `stop {name} --force` kills it")


def _wait_until_gone(run: LocalRun) -> None:
    until = time.monotonic() + _KILL_SECONDS
    while run.engine_alive():
        if time.monotonic() > until:
            raise Transient(
                "StillThere", f"run {run.name} is still there {_KILL_SECONDS:.0f} s after it was to be killed",
                f"look at {run.folder.engine_log_path}",
            )  # fmt: skip
        time.sleep(0.05)
