"""What `why` prints: the cause and the next action in one line, then the evidence, then further causes."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import click

from components.diagnosis.judge import Answer
from components.diagnosis.observed import Observed
from components.report.text import plain_line
from pipelines.cli.options import print_json
from pipelines.cli.present import headline, in_this_shell, why_lines


@dataclass(frozen=True)
class Shown:
    """An answer and what it rests on."""

    observed: Observed
    answer: Answer


def show(shown: Shown, output: str) -> None:
    """Print it, as people or programs want it."""
    if output == "json":
        print_json(answer_json(shown))
    else:
        click.echo("\n".join(answer_lines(shown)))


def answer_json(shown: Shown) -> dict[str, Any]:
    """One document: the answer, the others, and what could not be looked at."""
    view, answer = shown.observed.view, shown.answer
    return {
        "run": view.run, "state": view.state.value, "exit_code": view.exit_code,
        **answer.diagnosis.as_json(), "who": answer.diagnosis.actor.who,
        "others": [{**other.as_json(), "who": other.actor.who} for other in answer.others],
        "withheld": dict(shown.observed.withheld),
    }  # fmt: skip


def answer_lines(shown: Shown) -> list[str]:
    """For people."""
    return [*why_lines(shown.answer.diagnosis), *_rest(shown)]


def _rest(shown: Shown) -> Iterator[str]:
    for other in shown.answer.others:
        yield f"also    {headline(other)}"
    for what, reason in shown.observed.withheld.items():
        yield f"unseen  {what}: {in_this_shell(plain_line(reason))}"
