"""`logs`: what a run's stages and ranks wrote, as lines for people or as JSON lines."""

import sys
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from components.contracts.clock import parse_utc
from components.errors import ArgosyError, BadInput
from components.report.logs import LogFile, LogFilter, LogLine, LogReader, PartlyRefused
from components.report.text import plain, plain_line
from pipelines.cli.find import find_run
from pipelines.cli.options import output_option
from pipelines.cli.targets import PlaceOptions, place_options

if TYPE_CHECKING:
    from pipelines.cli.cluster_run import ClusterRun
    from pipelines.cli.local_run import LocalRun

_LOOK_SECONDS = 0.5
_SHOWN = {
    "at", "level", "message", "experiment", "workflow", "run", "task", "attempt", "node", "node_rank", "rank", "image",
    "generation", "stream", "traceback",
}  # fmt: skip
"""Fields with a place of their own in the line, or the same on every line of a run."""


@click.command()
@click.argument("run", required=False)
@click.option("--stage", metavar="TASK", help="Only this task, for example launch; shard means all its tasks.")
@click.option("--node", metavar="NODE", help="Only this node: its name or its node rank.")
@click.option("--rank", type=click.IntRange(min=0), help="Only this rank.")
@click.option("-f", "--follow", "follows", is_flag=True, help="Go on with new lines until the run is over.")
@place_options
@output_option
def logs(
    run: str | None, stage: str | None, node: str | None, rank: int | None, follows: bool, place: PlaceOptions,
    output: str,
) -> None:  # fmt: skip
    """Show what a run's stages and ranks wrote.

    RUN is a run's name; without it, the latest run. Lines of all stages, nodes and ranks in the order of time; with
    -o json as they were written, one JSON object a line.
    """
    found = find_run(run, place)
    _require_rank(found, rank)
    if follows:
        found.keep_up()
    files = _Files(found, tells_at_once=follows)
    reader = LogReader(found.store, found.name, files, LogFilter(stage=stage, node=node, rank=rank))
    try:
        if follows:
            _follow(found, reader, output)
        else:
            _print(reader.new_lines(), output)
    except KeyboardInterrupt:
        return
    finally:
        found.close()
    if files.refusal is not None:
        raise files.refusal


class _Files:
    """The stages' output. What may not be read of it keeps nobody from the rest, and is told at the end."""

    def __init__(self, run: "LocalRun | ClusterRun", *, tells_at_once: bool) -> None:
        """`tells_at_once`: the end may be hours away."""
        self._run, self._tells = run, tells_at_once
        self._known: Sequence[LogFile] = ()
        self.refusal: ArgosyError | None = None
        """Of the last look."""

    def __call__(self) -> Sequence[LogFile]:
        try:
            self._known, self.refusal = self._run.log_files(), None
        except PartlyRefused as partly:
            self._known, self.refusal = partly.files, partly.error
        except ArgosyError as error:
            self.refusal = error
        if self.refusal is not None and self._tells:
            self._tells = False
            click.echo(f"what stages wrote is not all shown: {self.refusal}", err=True)
        return self._known


def _require_rank(run: "LocalRun | ClusterRun", rank: int | None) -> None:
    launch = run.info.description.get("launch") or {}
    world_size = launch.get("num_nodes", 0) * launch.get("nproc_per_node", 0)  # 0: submitted from elsewhere, not known
    if rank is not None and world_size and rank >= world_size:
        ranks = "rank 0 only" if world_size == 1 else f"ranks 0 to {world_size - 1}"
        raise BadInput("NoSuchRank", f"{run.name} has no rank {rank}", f"it has {ranks}")


def _follow(run: "LocalRun | ClusterRun", reader: LogReader, output: str) -> None:
    while True:
        is_over = not run.engine_alive()  # asked before reading, so that nothing written before the end is missed
        _print(reader.new_lines(final=is_over), output)
        if is_over:
            return
        time.sleep(_LOOK_SECONDS)


def _print(lines: Iterable[LogLine], output: str) -> None:
    write = sys.stdout.write
    if output == "json":
        import json

        for line in lines:
            write(json.dumps(_whole(line), ensure_ascii=False) + "\n")
    else:
        clock = _Clock()
        for line in lines:
            write(render(line, clock(line.at)) + "\n")
    sys.stdout.flush()


def render(line: LogLine, moment: str) -> str:
    """`19:03:11.123 launch/rank 1  step 3 loss=2.5`; continuation lines are indented."""
    where = line.task
    if line.generation:
        where += f"/g{line.generation}"
    if line.rank is not None:
        where += f"/rank {line.rank}"
    elif line.node_rank is not None:
        where += f"/node {line.node_rank}"
    level = "" if line.level == "info" else f"{line.level.upper()} "
    message, *more = plain(line.message).split("\n")
    extra = "".join(f" {name}={_value(value)}" for name, value in line.fields.items() if name not in _SHOWN)
    text = f"{moment} {plain_line(where)}  {plain_line(level)}{' ' if level else ''}{message}{extra}"
    more += plain(str(line.fields.get("traceback", ""))).splitlines()
    return "\n    ".join([text.rstrip(), *more]) if more else text.rstrip()


def _value(value: Any) -> str:
    text = plain_line(str(value))
    return f'"{text}"' if " " in text else text


def _whole(line: LogLine) -> dict[str, Any]:
    """The line as written, with what was known from its place only."""
    known = {"at": line.at, "level": line.level, "message": line.message, "task": line.task}
    if line.rank is not None:
        known["rank"] = line.rank  # type: ignore[assignment]
    if line.node_rank is not None:
        known["node_rank"] = line.node_rank  # type: ignore[assignment]
    return {**known, **line.fields}


class _Clock:
    """Local time of day; lines of one second share the work of conversion."""

    def __init__(self) -> None:
        self._second, self._text = "", ""

    def __call__(self, at: str) -> str:
        second, _, rest = at.partition(".")
        if second != self._second:
            try:
                self._text = f"{parse_utc(at).astimezone():%H:%M:%S}"
            except ValueError:
                return plain_line(at) or "--:--:--.---"
            self._second = second
        return f"{self._text}.{rest[:3]}" if rest else self._text
