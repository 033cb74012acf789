"""`python -m components.retain URI --experiment NAME`: retention of any storage, without a workflow.

python -m components.retain file:///data/argosy --experiment gpt --keep-last 3 --keep-for 7d --dry-run
"""

import argparse
import re
import sys
import traceback
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError

from components.contracts.document import path_of
from components.contracts.retention import KeepBest, RetentionPlan, RetentionPolicy
from components.contracts.units import format_size, parse_duration
from components.errors import ArgosyError, BadInput, ExitCode, Problem
from components.ledger.ledger import Ledger
from components.retain.apply import apply_retention
from components.retain.objects import Doomed, doomed_objects
from components.retain.plan import plan_retention
from components.runtime.log import Log
from components.storage.base import open_store

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> "None":  # type: ignore[override]
        raise BadInput("Usage", message, "see `python -m components.retain --help`")


def main(argv: Sequence[str]) -> int:
    """Apply the policy, or show what it would do; returns the exit code."""
    try:
        arguments = _parser().parse_args(argv)
        _retain(arguments, policy_of(arguments))
    except ArgosyError as error:
        print(error, file=sys.stderr)
        return int(error.exit_code)
    except Exception:
        traceback.print_exc()
        return int(ExitCode.BUG)
    return int(ExitCode.OK)


def policy_of(arguments: argparse.Namespace) -> RetentionPolicy:
    """The policy that the options describe. Raises BadInput."""
    best = None
    if arguments.keep_best is not None:
        metric, _, rest = arguments.keep_best.partition(":")
        mode, _, count = (rest or "min").partition(":")
        best = {"metric": metric, "mode": mode, "count": int(count) if count.isascii() and count.isdigit() else 1}
    try:
        age = parse_duration(arguments.keep_for) if arguments.keep_for else None
        rule = KeepBest.model_validate(best) if best else None
        return RetentionPolicy(
            keep_last=arguments.keep_last, keep_every_steps=arguments.keep_every_steps, keep_best=rule, keep_for=age
        )
    except ValidationError as error:
        problems = [Problem(f"--{path_of(item['loc']).replace('_', '-')}", item["msg"]) for item in error.errors()]
        raise BadInput("Usage", "the policy is not valid", problems=problems) from error
    except ValueError as error:
        raise BadInput("Usage", f"--keep-for: {error}", "write for example 7d") from error


def plan_lines(plan: RetentionPlan, doomed: Doomed, retired: frozenset[str]) -> list[str]:
    """A line for every checkpoint that is there, with the reason, and what would be freed right now; or none."""
    lines = [
        f"{item.action:<6}  {item.checkpoint}  {item.reason}"
        for item in plan.decisions
        if item.checkpoint not in retired
    ]
    lines += [f"delete  {folder}  an attempt that never committed, of a term that is over" for folder in doomed.orphans]
    if doomed.keys:
        lines.append(f"{len(doomed.keys)} objects, {format_size(doomed.size_bytes)}, may go already")
    return lines


def _ledger(arguments: argparse.Namespace) -> Ledger:
    """Raises BadInput for a name that is none."""
    problems = [
        Problem(option, f"{name!r} is not lowercase letters, digits, - . _ beginning with a letter or digit")
        for option, name in (("--experiment", arguments.experiment), ("--model-version", arguments.model_version))
        if not _NAME.fullmatch(name)
    ]
    if problems:
        raise BadInput("Usage", "these are no names", problems=problems)
    where: str = arguments.storage
    uri = where if "://" in where else f"file://{Path(where).expanduser().absolute()}"
    return Ledger(open_store(uri), arguments.experiment, arguments.model_version)


def _retain(arguments: argparse.Namespace, policy: RetentionPolicy) -> None:
    ledger = _ledger(arguments)
    now = datetime.now(UTC)
    if not arguments.dry_run:
        apply_retention(ledger, policy, run="by hand", log=Log({}), now=now)
    state = ledger.state()
    retired = frozenset(entry.checkpoint for entry in state.checkpoints.values() if entry.status == "retired")
    doomed = doomed_objects(ledger) if arguments.dry_run else Doomed((), 0, ())
    lines = plan_lines(plan_retention(state, policy, now), doomed, retired)
    nothing = f"no checkpoints of {ledger.experiment}/{ledger.model_version} are in {ledger.store.uri}"
    print("\n".join(lines or [nothing]))


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m components.retain", allow_abbrev=False, description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("storage", help="root of the storage: a folder, file:///folder or s3://bucket/prefix")
    parser.add_argument("--experiment", required=True)
    parser.add_argument("--model-version", default="v1")
    parser.add_argument("--keep-last", type=int, default=3, help="newest verified to keep, 2 or more (3)")
    parser.add_argument("--keep-every-steps", type=int, help="keep multiples of this")
    parser.add_argument("--keep-best", metavar="METRIC[:min|max[:COUNT]]", help="keep the best by a metric")
    parser.add_argument("--keep-for", metavar="TIME", help="keep what was committed less than this ago: 7d")
    parser.add_argument("--dry-run", action="store_true", help="show the plan, change nothing")
    return parser
