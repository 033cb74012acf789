"""`why`: the cause of a run's state, the evidence for it, and what to do next."""

from pathlib import Path

import click

from components.contracts.clock import parse_utc
from components.errors import BadInput
from pipelines.cli.find import find_run
from pipelines.cli.follow import now
from pipelines.cli.options import output_option
from pipelines.cli.targets import PlaceOptions, place_options
from pipelines.cli.why_show import Shown, show


@click.command()
@click.argument("run", required=False)
@click.option("--watch", is_flag=True, help="Stay, and tell when the answer changes; ends when the run has ended.")
@click.option(
    "--save",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Also write the evidence to FILE: what was observed, without commands, variables and secrets.",
)
@click.option(
    "--evidence",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Answer from such a FILE alone; no cluster and no storage is asked.",
)
@place_options
@output_option
def why(
    run: str | None, place: PlaceOptions, output: str, watch: bool, save: Path | None, evidence: Path | None
) -> None:  # fmt: skip
    """Say why a run failed, stopped or waits, and what to do.

    RUN is a run's name; without it, the latest run. The first line is the cause and the next action, below it stands
    the evidence: objects and fields.
    """
    from components.diagnosis.judge import judge
    from pipelines.cli import why_file

    if evidence is not None:
        _refuse_beside_evidence(run, place, watch, save)
        observed = why_file.load(evidence)
        show(Shown(observed, judge(observed, parse_utc(observed.taken_at))), output)
        return
    from pipelines.cli.why_observe import observe

    if watch:
        from pipelines.cli.why_watch import watch_run

        watch_run(find_run(run, place), output=output, save=save)
        return
    observed = observe(find_run(run, place))
    if save is not None:
        why_file.save(observed, save)
    show(Shown(observed, judge(observed, now())), output)


def _refuse_beside_evidence(run: str | None, place: PlaceOptions, watch: bool, save: Path | None) -> None:
    given = [
        name
        for name, is_given in (
            ("RUN", run is not None), ("--watch", watch), ("--save", save is not None),
            ("--target", place.target is not None), ("--context", place.context is not None),
            ("--namespace", place.namespace is not None), ("--server", place.server is not None),
        )
        if is_given
    ]  # fmt: skip
    if given:
        seen = f"{', '.join(given)} and --evidence are given, but the file alone says which run it is about"
        raise BadInput("Usage", seen, "leave one of them out")
