"""`why`: the cause of a run's state, the evidence for it, and what to do next."""

import click

from components.diagnosis.diagnose import diagnose
from pipelines.cli.find import find_run
from pipelines.cli.follow import now
from pipelines.cli.options import output_option, print_json
from pipelines.cli.present import why_lines
from pipelines.cli.targets import PlaceOptions, place_options


@click.command()
@click.argument("run", required=False)
@place_options
@output_option
def why(run: str | None, place: PlaceOptions, output: str) -> None:
    """Say why a run failed, stopped or waits, and what to do.

    RUN is a run's name; without it, the latest run. Below the answer stands the evidence for it.
    """
    view = find_run(run, place).view()
    diagnosis = diagnose(view, now())
    if output == "json":
        print_json({"run": view.run, "state": view.state.value, "exit_code": view.exit_code, **diagnosis.as_json()})
    else:
        click.echo("\n".join(why_lines(diagnosis)))
