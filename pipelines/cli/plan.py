"""What a run would do, without doing it: stages, attempts, deadlines, defaults used, fields without meaning here."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from components.contracts.units import format_duration
from infra.exit_handler import exit_leaf
from infra.workflow import Workflow, load_workflow, without_meaning
from pipelines.cli.present import table
from pipelines.config import TrainConfig

_EXIT_CODES = re.compile(r"'(-?\d+)'")
"""As retry expressions spell them; -1 is a pod lost without one."""


def plan_of(manifest: Mapping[str, Any], config: TrainConfig, *, is_recipe: bool) -> dict[str, Any]:
    """The plan as JSON values. A recipe gives every field, so there a field that equals its default is one used."""
    workflow = load_workflow(manifest)
    return {
        "stages": list(_stages(workflow)),
        "deadline_seconds": workflow.spec.active_deadline_seconds,
        "critical_path_seconds": config.critical_path,
        "defaults": dict(defaults_used(config, is_recipe=is_recipe)),
        "without_meaning": without_meaning(manifest),
    }


def plan_lines(plan: Mapping[str, Any]) -> list[str]:
    """The plan for people."""
    rows = [("STAGE", "AFTER", "ATTEMPTS", "DEADLINE", "RETRIED AFTER EXIT CODE")]
    for stage in plan["stages"]:
        name = stage["task"] + (f" ×{stage['count']}" if stage["count"] > 1 else "")
        deadline = format_duration(stage["deadline_seconds"]) if stage["deadline_seconds"] else "none"
        rows.append(
            (
                name,
                stage["after"],
                str(stage["attempts"]),
                deadline,
                ", ".join(stage["retried_on"]).replace("-1", "lost"),
            )
        )
    lines = ["Stages; the deadline is each attempt's own", *(f"  {line}" for line in table(rows))]
    deadline = plan["deadline_seconds"]
    lines.append(
        f"Deadline of the workflow: {format_duration(deadline) if deadline else 'none'} "
        f"(its stages take at most {format_duration(plan['critical_path_seconds'])}, every retry included)"
    )
    if plan["defaults"]:
        lines.append("Defaults used")
        lines += [f"  {line}" for line in table([(path, _text(value)) for path, value in plan["defaults"].items()])]
    if plan["without_meaning"]:
        lines.append("In the manifest, without meaning on one machine")
        lines += [f"  {line}" for line in table(list(plan["without_meaning"].items()))]
    return lines


def defaults_used(config: BaseModel, *, is_recipe: bool = False) -> Iterator[tuple[str, Any]]:
    """Fields that the description leaves to us, with the value they get, in the order of the sections."""
    return _defaults(config, config.model_dump(mode="json", by_alias=True), "", is_recipe)


def _defaults(model: BaseModel, values: Any, prefix: str, is_recipe: bool) -> Iterator[tuple[str, Any]]:
    for name, info in type(model).model_fields.items():
        path = f"{prefix}{info.alias or name}"
        value, dumped = getattr(model, name), values.get(info.alias or name)
        if isinstance(value, BaseModel) and isinstance(dumped, dict):
            yield from _defaults(value, dumped, f"{path}.", is_recipe)
        elif value is None:
            continue
        elif name not in model.model_fields_set or (
            is_recipe and not info.is_required() and value == info.get_default()
        ):
            yield path, dumped


def _stages(workflow: Workflow) -> Iterator[dict[str, Any]]:
    entry = workflow.spec.template(workflow.spec.entrypoint)
    for task in entry.dag.tasks if entry and entry.dag else ():
        sequence = task.with_sequence
        yield _stage(workflow, task.name, task.template, task.depends or "", len(sequence.items()) if sequence else 1)
    finish = exit_leaf(workflow.spec)
    if finish is not None:
        yield _stage(workflow, "finish", finish.name, "always, at the end", 1)


def _stage(workflow: Workflow, name: str, template_name: str, after: str, count: int) -> dict[str, Any]:
    template = workflow.spec.template(template_name)
    retry = template.retry_strategy if template else None
    return {
        "task": name,
        "template": template_name,
        "after": after,
        "count": count,
        "attempts": retry.limit + 1 if retry else 1,
        "deadline_seconds": template.active_deadline_seconds if template else None,
        "retried_on": _EXIT_CODES.findall(retry.expression or "") if retry else [],
    }


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "none" if value is None else str(value)
