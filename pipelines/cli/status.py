"""`status`: where a run stands."""

import click

from components.diagnosis.diagnose import diagnose
from pipelines.cli.find import find_run
from pipelines.cli.follow import now
from pipelines.cli.options import output_option, print_json
from pipelines.cli.present import status_lines, view_json
from pipelines.cli.targets import PlaceOptions, place_options


@click.command()
@click.argument("run", required=False)
@place_options
@output_option
def status(run: str | None, place: PlaceOptions, output: str) -> None:
    """Show where a run stands.

    RUN is a run's name; without it, the latest run.
    """
    view, moment = find_run(run, place).view(), now()
    diagnosis = diagnose(view, moment)
    if output == "json":
        print_json(view_json(view, diagnosis))
    else:
        click.echo("\n".join(status_lines(view, diagnosis, moment)))
