"""Names, leaves and tasks: each well-formed by itself, and complete where Argo's own default would surprise."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from components.errors import Problem
from infra.local.expressions import ExpressionError, parse_depends, parse_retry
from infra.workflow import DagView, TemplateView, Workflow

MAX_NAME = 63
MAX_POD_SECONDS = 2**31 - 1
GENERATED_SUFFIX = 5
"""Characters the API server appends to generateName."""

_NAME = re.compile(r"[a-zA-Z][-a-zA-Z0-9]*")
_OBJECT_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_PARAMETER = re.compile(r"[-a-zA-Z0-9_]+")
_LABEL = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")

DISPLAY_NAME = "workflows.argoproj.io/display-name"
_DISPLAY_NAME = re.compile(r"[a-zA-Z0-9][-a-zA-Z0-9.]{0,61}[a-zA-Z0-9]")
_AFTER_FAILURE = re.compile(r"\.(Failed|Errored|AllFailed|Omitted)\b")


def structure_problems(workflow: Workflow) -> list[Problem]:
    """Faults of names, leaves and DAGs; references between them are another module's business."""
    return [*_object_problems(workflow), *_template_problems(workflow), *_exit_handler_problems(workflow)]


def _object_problems(workflow: Workflow) -> Iterator[Problem]:
    metadata = workflow.metadata
    if (metadata.name is None) == (metadata.generate_name is None):
        yield Problem("metadata", "name and generateName: exactly one is needed", "set generateName")
    name = metadata.name if metadata.name is not None else (metadata.generate_name or "x").rstrip("-")
    room = MAX_NAME if metadata.name is not None else MAX_NAME - GENERATED_SUFFIX - 1
    if len(name) > room or not _OBJECT_NAME.fullmatch(name):
        yield Problem(
            "metadata.name" if metadata.name is not None else "metadata.generateName",
            f"{name!r} ({len(name)} characters) is no object name",
            f"lowercase letters, digits and hyphens, at most {room} characters",
        )
    yield from _label_problems("metadata.labels", metadata.labels)
    if workflow.spec.pod_metadata is not None:
        yield from _label_problems("spec.podMetadata.labels", workflow.spec.pod_metadata.labels)
    if workflow.spec.active_deadline_seconds is None:
        yield Problem("spec.activeDeadlineSeconds", "missing: the Workflow could run for ever", "set a deadline")
    yield from _duplicates("spec.arguments.parameters", (item.name for item in workflow.spec.arguments.parameters))


def _template_problems(workflow: Workflow) -> Iterator[Problem]:
    templates = workflow.spec.templates
    yield from _duplicates("spec.templates", (template.name for template in templates))
    for template in templates:
        where = f"spec.templates[{template.name}]"
        yield from _name_problems(where, template.name, _NAME, "letters, digits and hyphens, starting with a letter")
        yield from _label_problems(f"{where}.metadata.labels", template.metadata.labels)
        inputs = [parameter.name for parameter in template.inputs.parameters]
        outputs = [parameter.name for parameter in template.outputs.parameters]
        for part, names in (("inputs", inputs), ("outputs", outputs)):
            yield from _duplicates(f"{where}.{part}.parameters", names)
            for name in names:
                yield from _name_problems(
                    f"{where}.{part}.parameters[{name}]", name, _PARAMETER, "letters, digits, `-` and `_`"
                )
        yield from _display_problems(where, template.annotations)
        if template.dag is not None:
            yield from _dag_problems(template, template.dag, where)
        elif template.steps is not None:
            yield from _steps_problems(workflow, template, where)
        else:
            yield from _leaf_problems(template, where)


def _leaf_problems(leaf: TemplateView, where: str) -> Iterator[Problem]:
    if not leaf.active_deadline_seconds:
        yield Problem(f"{where}.activeDeadlineSeconds", "missing: an attempt could run for ever", "set a deadline")
    elif leaf.active_deadline_seconds > MAX_POD_SECONDS:
        seen = f"{leaf.active_deadline_seconds} s; Kubernetes admits {MAX_POD_SECONDS}"
        yield Problem(f"{where}.activeDeadlineSeconds", seen, "set a shorter deadline")
    retry = leaf.retry_strategy
    if retry is None:
        yield Problem(f"{where}.retryStrategy", "missing", "every leaf says when it is retried; limit 0 means never")
        return
    if retry.retry_policy is None or retry.expression is None:
        yield Problem(
            f"{where}.retryStrategy",
            "policy and expression are not both set, and one changes the other's default",
            "set retryPolicy: Always and an expression",
        )
    if retry.backoff is None:
        yield Problem(f"{where}.retryStrategy.backoff", "missing: retries would follow each other at once", "set one")
    if retry.expression is not None:
        try:
            parse_retry(retry.expression)
        except ExpressionError as error:
            yield Problem(f"{where}.retryStrategy.expression", str(error))


def _exit_handler_problems(workflow: Workflow) -> Iterator[Problem]:
    """See `infra/exit_handler.py` for what Argo does with the other forms."""
    handler = workflow.spec.template(workflow.spec.on_exit) if workflow.spec.on_exit is not None else None
    fix = "name a template of one step, and let that be the container"
    if handler is not None and handler.dag is not None:
        yield Problem("spec.onExit", f"{handler.name!r} is a DAG: Argo fails it as soon as the run is stopped", fix)
    if handler is not None and handler.is_leaf and handler.retry_strategy is not None:
        seen = "has a retryStrategy: Argo fails its attempts once the Workflow's deadline has passed"
        yield Problem("spec.onExit", f"{handler.name!r} {seen}", fix)


def _steps_problems(workflow: Workflow, template: TemplateView, where: str) -> Iterator[Problem]:
    if template.name != workflow.spec.on_exit:
        yield Problem(f"{where}.steps", "stands elsewhere than in the exit handler", "use a DAG")
    if DISPLAY_NAME in template.annotations:
        seen = "hides from Argo that this is the exit handler, so its deadline ends it"
        yield Problem(f"{where}.annotations[{DISPLAY_NAME}]", seen, "remove it")
    if template.inputs.parameters:
        yield Problem(f"{where}.inputs", "stands on a step", "remove it: nobody gives an exit handler inputs")
    yield from _outer_problems(template, where, "a step")
    for group in template.steps or ():
        for step in group:
            inner = f"{where}.steps[{step.name}]"
            yield from _name_problems(inner, step.name, _NAME, "letters, digits and hyphens, starting with a letter")


def _outer_problems(template: TemplateView, where: str, what: str) -> Iterator[Problem]:
    for name, value in (
        ("activeDeadlineSeconds", template.active_deadline_seconds),
        ("retryStrategy", template.retry_strategy),
        ("podSpecPatch", template.pod_spec_patch),
    ):
        if value is not None:
            fix = f"set it on the leaves; on {what} Argo refuses or multiplies it"
            yield Problem(f"{where}.{name}", f"stands on {what}", fix)
    if template.outputs.parameters:
        yield Problem(f"{where}.outputs", f"stands on {what}", "leave it to the containers")


def _dag_problems(template: TemplateView, dag: DagView, where: str) -> Iterator[Problem]:
    yield from _outer_problems(template, where, "a DAG")
    yield from _duplicates(f"{where}.dag.tasks", (task.name for task in dag.tasks))
    waited_for: set[str] = set()
    for task in dag.tasks:
        inner = f"{where}.dag.tasks[{task.name}]"
        yield from _name_problems(inner, task.name, _NAME, "letters, digits and hyphens, starting with a letter")
        yield from _duplicates(f"{inner}.arguments.parameters", (item.name for item in task.arguments.parameters))
        try:
            waited_for.update(parse_depends(task.depends).tasks if task.depends else ())
        except ExpressionError as error:
            yield Problem(f"{inner}.depends", str(error))
    for task in dag.tasks:
        if task.name not in waited_for and task.depends and _AFTER_FAILURE.search(task.depends):
            yield Problem(
                f"{where}.dag.tasks[{task.name}].depends",
                f"{task.depends!r}: a last task that follows a failure turns a failed Workflow green",
                "clean up in the exit handler",
            )


def _name_problems(where: str, name: str, rule: re.Pattern[str], words: str) -> Iterator[Problem]:
    if len(name) > MAX_NAME or not rule.fullmatch(name):
        yield Problem(where, f"{name!r} ({len(name)} characters) is no name here", f"{words}, at most {MAX_NAME}")


def _label_problems(where: str, labels: Mapping[str, str]) -> Iterator[Problem]:
    for key, value in labels.items():
        if len(value) > MAX_NAME or not _LABEL.fullmatch(value):
            yield Problem(
                f"{where}[{key}]", f"{value!r} is no label value", "letters, digits, `-`, `_`, `.`, at most 63"
            )


def _display_problems(where: str, annotations: Mapping[str, str]) -> Iterator[Problem]:
    name = annotations.get(DISPLAY_NAME)
    if name is not None and not _DISPLAY_NAME.fullmatch(name):
        fix = "letters, digits, `-` and `.`, 2 to 63: Argo makes any other an Error of the node"
        yield Problem(f"{where}.annotations[{DISPLAY_NAME}]", f"{name!r} is no display name", fix)


def _duplicates(where: str, names: Iterable[str]) -> Iterator[Problem]:
    for name, count in Counter(names).items():
        if count > 1:
            yield Problem(f"{where}[{name}]", f"there are {count} of that name", "names must be unique")
