"""`resume`: continue a run that failed, was stopped, or lost its engine."""

import click

from components.errors import BadInput
from pipelines.cli.find import find_run
from pipelines.cli.local_run import LocalRun
from pipelines.cli.options import output_option
from pipelines.cli.targets import PlaceOptions, place_options


@click.command()
@click.argument("run", required=False)
@click.option("--detach", is_flag=True, help="Return once the run goes on; it does so by itself.")
@place_options
@output_option
def resume(run: str | None, detach: bool, place: PlaceOptions, output: str) -> int:
    """Continue a failed, stopped or interrupted run.

    RUN is a run's name; without it, the latest run. The same run goes on: finished stages are not repeated, training
    starts from the newest good checkpoint. Followed like `submit`, with the run's exit code.
    """
    found = find_run(run, place)
    if found.engine_alive():
        raise BadInput("StillRunning", f"run {found.name} is running", f"see `status {found.name}`")
    view = found.view()
    if view.exit_code == 0:
        raise BadInput("NothingToResume", f"run {found.name} has succeeded", "`submit` starts another run")
    from infra.local import client
    from pipelines.cli.follow import announce, detached, follow_to_end

    text = f"target {found.target_name}: resuming run {found.name}, which was {view.state.value}"
    announce(text, output)

    def start() -> None:
        if isinstance(found, LocalRun):
            client.resume(found.folder)
        else:
            found.resume()

    try:
        if detach:
            return detached(found, output, start=start)
        return follow_to_end(found, output, start=start, known=view)
    finally:
        found.close()
