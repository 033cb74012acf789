"""`checkpoints retain`: the retention policy by hand, and its plan without any effect."""

import io
import json
from datetime import UTC, datetime
from typing import Any

import click

from components.contracts.document import path_of
from components.contracts.retention import Decision, RetentionPolicy
from components.contracts.units import format_size, parse_duration
from components.errors import BadInput, Problem
from components.ledger.ledger import LedgerState
from components.report.text import plain_line
from components.runtime.log import Log
from pipelines.cli.checkpoints_place import Place, place_options
from pipelines.cli.checkpoints_policy import retain_section
from pipelines.cli.options import output_option, print_json
from pipelines.cli.present import table


@click.command()
@place_options
@click.option("--dry-run", is_flag=True, help="Show the plan, with a reason for every checkpoint; change nothing.")
@click.option("--keep-last", type=int, metavar="N", help="Newest verified to keep, 2 or more.")
@click.option("--keep-every-steps", type=int, metavar="N", help="Keep those at a multiple of N.")
@click.option("--keep-for", metavar="TIME", help="Keep what was committed less than this ago, for example 7d.")
@output_option
def retain(
    place: Place, dry_run: bool, keep_last: int | None, keep_every_steps: int | None, keep_for: str | None, output: str
) -> None:
    """Apply the retention policy, or show its plan.

    The policy is that of -c or of the experiment's latest run; options change single rules of it. Whatever the policy:
    the newest two verified ones, pinned ones, and what a running gang resumed from stay.
    """
    from components.retain.apply import apply_retention
    from components.retain.objects import Doomed, doomed_objects
    from components.retain.plan import plan_retention, to_retire

    changes = {"keep_last": keep_last, "keep_every_steps": keep_every_steps, "keep_for": keep_for}
    policy = policy_of(place, {name: value for name, value in changes.items() if value is not None})
    before, now = place.ledger.state(), datetime.now(UTC)
    plan = plan_retention(before, policy, now)
    doomed = doomed_objects(place.ledger) if dry_run else Doomed((), 0, ())
    if not dry_run:
        plan = apply_retention(place.ledger, policy, run=_by(), log=Log({}, io.StringIO()), now=now)
    going = {item.checkpoint for item in to_retire(before, plan)}
    shown = [item for item in plan.decisions if item.action == "keep" or item.checkpoint in going]
    size = sum(before.checkpoints[name].size_bytes for name in going if name in before.checkpoints)
    if output == "json":
        decisions = [item.as_json() for item in shown]
        body: dict[str, Any] = {"dry_run": dry_run, "policy": policy.as_json(), "decisions": decisions}
        print_json({**body, "frees_bytes": size + doomed.size_bytes, "orphans": list(doomed.orphans)})
        return
    click.echo("\n".join(_lines(shown, before, len(going), size, doomed.size_bytes, dry_run=dry_run)))


def policy_of(place: Place, changes: dict[str, Any]) -> RetentionPolicy:
    """The policy of the description, with changes. Raises BadInput."""
    from pydantic import ValidationError

    from pipelines.sections import RetainSection

    section = retain_section(place)
    if section is None and "keep_last" not in changes:
        raise BadInput("Usage", "no policy is known for these checkpoints", "give -c run.yaml, or --keep-last N")
    try:
        if "keep_for" in changes:
            changes = {**changes, "keep_for": parse_duration(changes["keep_for"])}
        described = RetainSection.model_validate_json(json.dumps(section or {})).policy()
        return RetentionPolicy.model_validate({**described.model_dump(), **changes})
    except ValidationError as error:
        problems = [Problem(f"--{path_of(item['loc']).replace('_', '-')}", item["msg"]) for item in error.errors()]
        raise BadInput("Usage", "the policy is not valid", problems=problems) from error
    except ValueError as error:
        raise BadInput("Usage", f"--keep-for: {error}") from error


def _by() -> str:
    from pipelines.cli.local_run import who

    return f"by hand, {who()}"


def _lines(
    shown: list[Decision], state: LedgerState, num_going: int, size: int, left_over: int, *, dry_run: bool
) -> list[str]:
    rows = [("", "CHECKPOINT", "SIZE", "BECAUSE")]
    rows += [
        (
            item.action, item.checkpoint,
            format_size(state.checkpoints[item.checkpoint].size_bytes) if item.checkpoint in state.checkpoints else "",
            plain_line(item.reason),
        )
        for item in shown
    ]  # fmt: skip
    verb = "would go" if dry_run else "gone"
    lines = [*table(rows), "", f"{num_going} of {len(shown)} {verb}, {format_size(size)}"]
    if left_over:
        lines.append(f"and {format_size(left_over)} of objects that nothing refers to any more")
    return lines
