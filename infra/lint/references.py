"""Every name that is mentioned exists, and every `{{tag}}` stands where Argo knows it."""

from collections.abc import Iterator, Mapping
from typing import Any

from components.errors import Problem
from infra.exit_handler import exit_leaf, exit_step
from infra.local.expressions import ExpressionError, parse_depends
from infra.local.substitution import tags
from infra.pod_view import View
from infra.workflow import DagView, TaskView, TemplateView, Workflow

_ALWAYS = frozenset(("workflow.name",))
_EXIT_ONLY = frozenset(("workflow.status", "workflow.failures"))


def reference_problems(workflow: Workflow) -> list[Problem]:
    """Dangling templates, tasks, parameters and tags; arguments that are missing or too many; cycles."""
    return [*_template_references(workflow), *_tag_problems(workflow)]


def ancestors(dag: DagView) -> Mapping[str, frozenset[str]] | None:
    """For each task all tasks that end before it starts; None when there is a cycle. Unknown names are left out."""
    direct = {task.name: _waits_for(task) & {other.name for other in dag.tasks} for task in dag.tasks}
    found: dict[str, frozenset[str]] = {}
    while len(found) < len(direct):
        ready = [name for name, names in direct.items() if name not in found and names <= found.keys()]
        if not ready:
            return None
        for name in ready:
            found[name] = frozenset(direct[name]).union(*(found[other] for other in direct[name]))
    return found


def _waits_for(task: TaskView) -> set[str]:
    try:
        return set(parse_depends(task.depends).tasks) if task.depends else set()
    except ExpressionError:
        return set()  # reported with the task's form


def _template_references(workflow: Workflow) -> Iterator[Problem]:
    spec = workflow.spec
    known = {template.name for template in spec.templates}
    step = exit_step(spec)
    used = {spec.entrypoint, spec.on_exit, step.template if step else None}
    for where, name in (("spec.entrypoint", spec.entrypoint), ("spec.onExit", spec.on_exit)):
        if name is not None and name not in known:
            yield Problem(where, f"there is no template {name!r}", f"one of {', '.join(sorted(known))}")
    if step is not None and step.template not in known:
        where = f"spec.templates[{spec.on_exit}].steps[{step.name}].template"
        yield Problem(where, f"there is no template {step.template!r}", "name an existing one")
    for template in spec.templates:
        for task in template.dag.tasks if template.dag else ():
            where = f"spec.templates[{template.name}].dag.tasks[{task.name}]"
            used.add(task.template)
            names = {other.name for other in template.dag.tasks} if template.dag else set()
            for name in sorted(_waits_for(task) - names):
                yield Problem(f"{where}.depends", f"there is no task {name!r}", f"one of {', '.join(sorted(names))}")
            target = spec.template(task.template)
            if target is None:
                yield Problem(f"{where}.template", f"there is no template {task.template!r}", "name an existing one")
            else:
                yield from _argument_problems(task, target, where)
        if template.dag is not None and ancestors(template.dag) is None:
            yield Problem(f"spec.templates[{template.name}].dag", "tasks wait for each other in a circle", "break it")
    for name in sorted(known - used):
        yield Problem(f"spec.templates[{name}]", "no task uses it", "remove it")
    if _is_recursive(workflow, spec.entrypoint, ()):
        yield Problem("spec.entrypoint", "a DAG contains itself", "the engine and the deadlines know no recursion")
    for target in (spec.template(spec.entrypoint), exit_leaf(spec)):
        for parameter in target.inputs.parameters if target else ():
            if parameter.value is None:
                where = f"spec.templates[{target.name}].inputs[{parameter.name}]" if target else ""
                yield Problem(where, "nobody gives it a value", "remove it")


def _argument_problems(task: TaskView, target: TemplateView, where: str) -> Iterator[Problem]:
    given, declared = task.arguments.values(), target.inputs.values()
    for name in given.keys() - declared.keys():
        yield Problem(f"{where}.arguments[{name}]", f"template {target.name} has no such input", "remove it")
    for name in given.keys() & declared.keys():
        if given[name] is None:
            yield Problem(f"{where}.arguments[{name}]", "has no value", "give it one")
    for name, default in declared.items():
        if name not in given and default is None:
            yield Problem(f"{where}.arguments", f"input {name} of template {target.name} is not given", f"pass {name}")


def _is_recursive(workflow: Workflow, name: str, above: tuple[str, ...]) -> bool:
    if name in above:
        return True
    template = workflow.spec.template(name)
    tasks = template.dag.tasks if template and template.dag else ()
    return any(_is_recursive(workflow, task.template, (*above, name)) for task in tasks)


def _tag_problems(workflow: Workflow) -> Iterator[Problem]:
    spec = workflow.spec
    given = {f"workflow.parameters.{parameter.name}" for parameter in spec.arguments.parameters} | _ALWAYS
    outside = _data(workflow) | {"spec": _data(spec) | {"templates": [], "podSpecPatch": ""}}
    for _, tag in tags(spec.pod_spec_patch or ""):
        if tag not in given:
            yield _unknown_tag("spec.podSpecPatch", tag, given)
    for path, tag in tags(outside):
        yield Problem(path, _shown(tag), "Argo does not substitute it here; write the value")
    for template in spec.templates:
        where = f"spec.templates[{template.name}]"
        inputs = {f"inputs.parameters.{parameter.name}" for parameter in template.inputs.parameters}
        known = given | inputs | (_EXIT_ONLY if template == exit_leaf(spec) else set())
        if template.dag is not None:
            yield from _task_tag_problems(workflow, template.dag, known, where)
            continue
        if template.retry_strategy is not None:
            known.add("retries")
        for path, tag in tags(_data(template)):
            if not path.startswith("container."):
                yield Problem(f"{where}.{path}", _shown(tag), "tags belong into the container's fields")
            elif tag not in known:
                yield _unknown_tag(f"{where}.{path}", tag, known)


def _task_tag_problems(workflow: Workflow, dag: DagView, known: set[str], where: str) -> Iterator[Problem]:
    before = ancestors(dag) or {}
    for task in dag.tasks:
        available = set(known)
        for name in before.get(task.name, ()):
            other = dag.task(name)
            template = workflow.spec.template(other.template) if other and other.with_sequence is None else None
            for output in template.outputs.parameters if template else ():
                available.add(f"tasks.{name}.outputs.parameters.{output.name}")
        if task.with_sequence is not None:
            available.add("item")
        for path, tag in tags(_data(task)):
            inner = f"{where}.dag.tasks[{task.name}].{path}"
            if not path.startswith("arguments."):
                yield Problem(inner, _shown(tag), "tags belong into a task's arguments")
            elif tag not in available:
                yield _unknown_tag(inner, tag, available)


def _unknown_tag(where: str, tag: str | None, known: set[str]) -> Problem:
    if tag is None:
        return Problem(where, "`{{` without `}}`", "Argo would read on into the next field; close it")
    if tag.startswith("="):
        return Problem(where, f"the expression {{{{{tag}}}}}", "expressions are not evaluated; write the value")
    if tag.startswith("tasks."):
        return Problem(where, f"{{{{{tag}}}}} is not an output of a task that this one waits for", "add it to depends")
    return Problem(where, f"{{{{{tag}}}}} is not declared here", f"known are {', '.join(sorted(known))}")


def _shown(tag: str | None) -> str:
    return "`{{` without `}}`" if tag is None else f"the tag {{{{{tag}}}}}"


def _data(view: View) -> dict[str, Any]:
    return view.model_dump(mode="json", by_alias=True, exclude_none=True)
