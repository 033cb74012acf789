"""`why --watch`: looks again and again, and tells when the answer is another one."""

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from components.diagnosis.judge import judge
from components.errors import Transient
from pipelines.cli import why_file
from pipelines.cli.follow import now
from pipelines.cli.present import headline, local_time
from pipelines.cli.why_observe import observe
from pipelines.cli.why_show import Shown, answer_json, answer_lines

if TYPE_CHECKING:
    from pipelines.cli.cluster_run import ClusterRun
    from pipelines.cli.local_run import LocalRun

_LOOK_SECONDS = 3.0
_PASSING = re.compile(r"\b(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+\b|\bstep \d+(?: of \d+)?")
"""Numbers that move while nothing changes."""


def watch_run(
    run: "LocalRun | ClusterRun", *, output: str, save: Path | None, pause: Callable[[float], None] = time.sleep
) -> None:
    """Print the answer, then every other answer, until the run has ended. A look that fails once is taken again."""
    last = ""
    while True:
        try:
            observed = observe(run, again=True)
        except Transient as error:
            click.echo(f"cannot look now: {error}", err=True)
            pause(_LOOK_SECONDS)
            continue
        shown = Shown(observed, judge(observed, now()))
        said = _gist(shown)
        if said != last:
            _tell(shown, output, is_first=not last)
            if save is not None:
                why_file.save(observed, save)
            last = said
        if observed.view.state.is_final:
            return
        pause(_LOOK_SECONDS)


def _tell(shown: Shown, output: str, *, is_first: bool) -> None:
    if output == "json":
        click.echo(json.dumps(answer_json(shown), ensure_ascii=False))
    elif is_first:
        click.echo("\n".join([*answer_lines(shown), ""]))
    else:
        click.echo(f"{local_time(shown.observed.taken_at)}  {headline(shown.answer.diagnosis)}")


def _gist(shown: Shown) -> str:
    """The answer without what only counts up."""
    found = shown.answer.diagnosis
    return f"{shown.observed.view.state.value} {found.reason} {_PASSING.sub('…', found.cause)}"
