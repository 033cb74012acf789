"""Deadline arithmetic: the Workflow lives long enough for every stage to use all its attempts."""

import json

from components.errors import Problem
from infra.lint.references import ancestors
from infra.workflow import DagView, TemplateView, Workflow


def deadline_problems(workflow: Workflow) -> list[Problem]:
    """Whether the Workflow's deadline covers its critical path, and every grace period is a number."""
    problems = [
        Problem(f"spec.templates[{template.name}].podSpecPatch", str(error), "write a JSON object")
        for template in workflow.spec.templates
        if (error := _patch_error(template))
    ]
    deadline, needed = workflow.spec.active_deadline_seconds, critical_path_seconds(workflow)
    if deadline is not None and deadline < needed:
        problems.append(
            Problem(
                "spec.activeDeadlineSeconds",
                f"{deadline} s, but the critical path takes up to {needed:.0f} s with all attempts and backoffs",
                f"set at least {needed:.0f}, or lower the leaves' deadlines or retries",
            )
        )
    return problems


def critical_path_seconds(workflow: Workflow) -> float:
    """The longest the entrypoint can take: attempts times deadline plus backoffs, along the slowest path."""
    entry = workflow.spec.template(workflow.spec.entrypoint)
    return 0.0 if entry is None else _template_seconds(workflow, entry)


def _template_seconds(workflow: Workflow, template: TemplateView) -> float:
    if template.dag is not None:
        return _dag_seconds(workflow, template.dag)
    retry = template.retry_strategy
    retries = retry.limit if retry else 0
    waits = sum(retry.backoff.wait_seconds(number) for number in range(retries)) if retry and retry.backoff else 0.0
    return (retries + 1) * (template.active_deadline_seconds or 0) + waits


def _dag_seconds(workflow: Workflow, dag: DagView) -> float:
    before = ancestors(dag) or {}
    ends: dict[str, float] = {}
    # A task has more ancestors than each of its ancestors, so this order is topological.
    for task in sorted(dag.tasks, key=lambda task: len(before.get(task.name, ()))):
        template = workflow.spec.template(task.template)
        start = max((ends[name] for name in before.get(task.name, ())), default=0.0)
        ends[task.name] = start + (_template_seconds(workflow, template) if template else 0.0)
    return max(ends.values(), default=0.0)


def _patch_error(template: TemplateView) -> str:
    if template.pod_spec_patch is None:
        return ""
    try:
        patch = json.loads(template.pod_spec_patch)
    except ValueError as error:
        return f"not JSON: {error}"
    if not isinstance(patch, dict) or patch.keys() - {"terminationGracePeriodSeconds"}:
        return "patches more than terminationGracePeriodSeconds"
    grace = patch.get("terminationGracePeriodSeconds")
    return "" if isinstance(grace, int) and grace > 0 else f"terminationGracePeriodSeconds is {grace!r}"
