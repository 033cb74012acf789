"""`status`: where a run stands."""

import click

from components.diagnosis.diagnose import diagnose
from pipelines.cli.follow import now
from pipelines.cli.local_run import find_run
from pipelines.cli.options import output_option, print_json
from pipelines.cli.present import status_lines, view_json


@click.command()
@click.argument("run", required=False)
@output_option
def status(run: str | None, output: str) -> None:
    """Show where a run stands.

    RUN is a run's name; without it, the latest run.
    """
    view, moment = find_run(run).view(), now()
    diagnosis = diagnose(view, moment)
    if output == "json":
        print_json(view_json(view, diagnosis))
    else:
        click.echo("\n".join(status_lines(view, diagnosis, moment)))
