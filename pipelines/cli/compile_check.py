"""`compile --check` and `--cluster`: is what was committed, and what the cluster has, what would be rendered now."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import yaml

from components.errors import ExitCode
from pipelines.cli.compile_render import render_files, render_objects
from pipelines.cli.options import Described
from pipelines.cli.targets import PlaceOptions

_MAX_LISTED = 30


def check_render(
    source: Described, kind: str | None, *, folder: Path | None, place: PlaceOptions | None, tags_allowed: bool
) -> int:
    """Compare, and say every difference. 78 when the folder differs, 81 when only the cluster does, else 0."""
    from pipelines.renders_files import read_folder

    committed = read_folder(folder) if folder is not None else None
    chosen = kind or (committed.kind if committed else None) or "all"
    differs = False
    if committed is not None:
        files = render_files(source, chosen, tags_allowed=tags_allowed)
        faults = list(_folder_faults(committed.texts, files, committed.taken))
        differs = bool(faults)
        if committed.strangers:
            click.echo(f"{folder}: not a render, and not looked at: {committed.strangers_named()}", err=True)
        _tell(str(folder), f"what {source.origin} renders as {chosen}", faults)
        if differs:
            click.echo(f"If the description is right, render again (--as {chosen} --out {folder}) and commit.")
    drifted = False
    if place is not None:
        from pipelines.cli.compile_drift import drift_lines

        where, lines = drift_lines(render_objects(source, chosen, tags_allowed=tags_allowed), place)
        drifted = bool(lines)
        _tell(where, f"what {source.origin} renders as {chosen}", lines)
    return int(ExitCode.BAD_INPUT if differs else ExitCode.ENVIRONMENT_UNFIT if drifted else ExitCode.OK)


def _tell(where: str, what: str, lines: Sequence[str]) -> None:
    if not lines:
        click.echo(f"{where}: is {what}")
        return
    click.echo(f"{where}: is not {what}")
    for line in lines:
        click.echo(f"  {line}")


def _folder_faults(texts: Mapping[str, str], files: Mapping[str, str], taken: Sequence[str]) -> Iterator[str]:
    for name in dict.fromkeys((*files, *texts)):
        if f"{name}" in taken:
            yield f"{name}: is no render"
        elif name not in texts:
            yield f"{name}: is missing"
        elif name not in files:
            yield f"{name}: would no longer be rendered"
        elif texts[name] != files[name]:
            yield f"{name}: differs (committed → rendered now)"
            yield from (f"  {line}" for line in _file_lines(texts[name], files[name]))


def _file_lines(committed: str, now: str) -> list[str]:
    """Fields that differ; where none does, the lines. And what our lint says of a template as it was committed."""
    from pipelines.renders import template_problems
    from pipelines.renders_diff import differences

    try:
        was, becomes = _documents(committed), _documents(now)
    except yaml.YAMLError as error:
        return [f"is no YAML: {' '.join(str(error).split())}"]
    lines = shortened([str(item) for item in differences(was, becomes)])
    if not lines:
        pairs = zip(committed.splitlines(), now.splitlines(), strict=False)
        line = next((number for number, pair in enumerate(pairs, start=1) if pair[0] != pair[1]), 0)
        lines = [f"in form only, from line {line or min(committed.count(chr(10)), now.count(chr(10))) + 1} on"]
    for item in was.values():
        if isinstance(item, dict) and item.get("kind") == "WorkflowTemplate":
            lines += [f"lint: {problem}" for problem in template_problems(item)]
    return lines


def shortened(lines: Sequence[str]) -> list[str]:
    """The first of many."""
    more = len(lines) - _MAX_LISTED
    return [*lines[:_MAX_LISTED], *([f"and {more} more"] if more > 0 else [])]


def _documents(text: str) -> dict[str, Any]:
    """Objects by `Kind name`."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found: dict[str, Any] = {}
    for index, item in enumerate(yaml.load_all(text, Loader=loader)):
        known = isinstance(item, dict) and isinstance(item.get("metadata") or {}, dict)
        name = f"{item.get('kind')} {(item.get('metadata') or {}).get('name', '')}".strip() if known else ""
        found[name or f"document {index}"] = item
    return found
