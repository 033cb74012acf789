"""Reads a manifest for execution: resolves every reference, parses every expression, refuses everything unclear.

After `load_program` nothing about the manifest itself can go wrong any more; what remains are facts of the run.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from components.contracts.node_names import EXIT_NODE, step_node
from components.errors import BadInput, Problem
from infra.exit_handler import exit_leaf, exit_step
from infra.local.expressions import Depends, ExpressionError, RetryExpression, parse_depends, parse_retry
from infra.local.program import ExitHandler, Leaf, Program, Task
from infra.local.substitution import CONTROL_CHARACTERS, tags
from infra.workflow import DagView, TaskView, TemplateView, Workflow, load_workflow

DEFAULT_GRACE_SECONDS = 30.0
"""terminationGracePeriodSeconds of a pod that does not say."""
_GRACE = "terminationGracePeriodSeconds"
OUTPUT_FOLDER = "/argosy/out/"
_TASK_NAME = re.compile(r"[A-Za-z][-A-Za-z0-9]*")


def load_program(manifest: Any, *, where: str = "manifest") -> Program:
    """Read `manifest` for execution. Raises BadInput with the path of everything the engine cannot honour."""
    workflow = load_workflow(manifest, where=where)
    reader = _Reader(workflow)
    program = reader.read()
    if program is None or reader.problems:
        raise BadInput(
            "UnsupportedWorkflow",
            f"{where} cannot be run here",
            "run what `compile` prints, unchanged",
            problems=reader.problems,
        )
    return program


class _Reader:
    def __init__(self, workflow: Workflow) -> None:
        self.workflow, self.spec = workflow, workflow.spec
        self.problems: list[Problem] = []
        self.parameters = {name: value for name, value in self.spec.arguments.values().items() if value is not None}

    def read(self) -> Program | None:
        for name, value in self.spec.arguments.values().items():
            if value is None:
                self._refuse(f"spec.arguments.parameters[{name}]", "has no value", "give it one")
            if value is not None and CONTROL_CHARACTERS.search(value):
                self._refuse(
                    f"spec.arguments.parameters[{name}]", "holds control characters", "Argo cannot pass them on"
                )
            for where, tag in tags(value, f"spec.arguments.parameters[{name}]"):
                if tag != "workflow.name":
                    self._refuse(where, f"holds {{{{{tag or ''}", "only {{workflow.name}} is known there")
        names = [template.name for template in self.spec.templates]
        for name in sorted({name for name in names if names.count(name) > 1}):
            self._refuse(f"spec.templates[{name}]", "there are several templates of this name", "rename one")
        entry = self.spec.template(self.spec.entrypoint)
        if entry is None or entry.dag is None:
            self._refuse("spec.entrypoint", f"{self.spec.entrypoint!r} is not a DAG template", "name one")
            return None
        if entry.inputs.parameters or entry.retry_strategy or entry.active_deadline_seconds is not None:
            self._refuse(
                f"spec.templates[{entry.name}]", "the entry DAG has inputs, a retry or a deadline", "leaf only"
            )
        leaves = {template.name: self._leaf(template) for template in self.spec.templates if template.is_leaf}
        tasks = self._tasks(entry.name, entry.dag, leaves)
        handler = self._exit_handler(leaves)
        waited_for = {name for task in tasks for name in task.waits_for}
        targets = tuple(sorted(task.name for task in tasks if task.name not in waited_for))
        return Program(self.workflow, tasks, targets, entry.dag.fail_fast, handler, self.parameters)

    def _refuse(self, path: str, seen: str, fix: str = "") -> None:
        self.problems.append(Problem(path, seen, fix))

    def _leaf(self, template: TemplateView) -> Leaf:
        path = f"spec.templates[{template.name}]"
        self._check_leaf_tags(template, path)
        if template.active_deadline_seconds == 0:
            self._refuse(f"{path}.activeDeadlineSeconds", "is 0", "Argo takes that for no deadline; give a number")
        outputs = {}
        for output in template.outputs.parameters:
            file_name = output.value_from.path.removeprefix(OUTPUT_FOLDER)
            if not output.value_from.path.startswith(OUTPUT_FOLDER) or not file_name or "/" in file_name:
                self._refuse(
                    f"{path}.outputs.parameters[{output.name}].valueFrom.path",
                    f"is {output.value_from.path!r}",
                    f"only {OUTPUT_FOLDER}<name> is there on one machine",
                )
            outputs[output.name] = file_name
        return Leaf(template, self._expression(template, path), self._grace(template, path), outputs)

    def _expression(self, template: TemplateView, path: str) -> RetryExpression | None:
        retry = template.retry_strategy
        if retry is None:
            return None
        if retry.retry_policy == "OnTransientError":
            self._refuse(
                f"{path}.retryStrategy.retryPolicy", "is OnTransientError", "that judges Kubernetes' own errors"
            )
        if retry.expression is None:
            return None
        try:
            return parse_retry(retry.expression)
        except ExpressionError as error:
            self._refuse(f"{path}.retryStrategy.expression", str(error))
            return None

    def _grace(self, template: TemplateView, path: str) -> float:
        if template.pod_spec_patch is None:
            return DEFAULT_GRACE_SECONDS
        try:
            patch = dict(json.loads(template.pod_spec_patch))
            grace = float(patch.pop(_GRACE, DEFAULT_GRACE_SECONDS))
        except (ValueError, TypeError):
            self._refuse(f"{path}.podSpecPatch", f"is not a JSON object whose {_GRACE} is a number")
            return DEFAULT_GRACE_SECONDS
        if patch:
            self._refuse(f"{path}.podSpecPatch", f"sets {', '.join(sorted(patch))}", f"only {_GRACE} acts here")
        return grace

    def _exit_handler(self, leaves: Mapping[str, Leaf]) -> ExitHandler | None:
        if self.spec.on_exit is None:
            return None
        view, step, outer = exit_leaf(self.spec), exit_step(self.spec), self.spec.template(self.spec.on_exit)
        leaf = leaves.get(view.name) if view else None
        if leaf is None:
            seen = f"{self.spec.on_exit!r} is neither a container template nor one step of such"
            self._refuse("spec.onExit", seen, "name one")
            return None
        if any(parameter.value is None for parameter in leaf.template.inputs.parameters):
            self._refuse("spec.onExit", f"{leaf.name} has inputs, and nothing can hand them over")
        if step is None:
            return ExitHandler(EXIT_NODE, leaf)
        path = f"spec.templates[{self.spec.on_exit}]"
        if not _TASK_NAME.fullmatch(step.name):
            self._refuse(path, f"a step cannot be called {step.name!r}", "letters, digits and hyphens, a letter first")
        if outer and (outer.inputs.parameters or outer.retry_strategy or outer.active_deadline_seconds is not None):
            self._refuse(path, "has inputs, a retry or a deadline beside its step", "leaf only")
        return ExitHandler(step_node(step.name), leaf)

    def _tasks(self, template: str, dag: DagView, leaves: Mapping[str, Leaf]) -> tuple[Task, ...]:
        tasks: dict[str, Task] = {}
        depends = {view.name: self._depends(template, dag, view) for view in dag.tasks}
        ordered = _in_order({name: item.tasks if item else () for name, item in depends.items()})
        for name in depends.keys() - set(ordered):
            self._refuse(f"spec.templates[{template}].dag.tasks[{name}].depends", "waits for itself")
        for name in ordered:
            view, path = dag.task(name), f"spec.templates[{template}].dag.tasks[{name}]"
            leaf = leaves.get(view.template) if view else None
            waits_for = tuple(name for item in [depends[name]] if item for name in item.tasks)
            if view is None or any(item not in tasks and item != name for item in waits_for):
                continue  # what it waits for was refused already
            if leaf is None:
                self._refuse(f"{path}.template", f"{view.template!r} is not a container template")
                continue
            ancestors = frozenset(waits_for).union(*(tasks[item].ancestors for item in waits_for if item in tasks))
            task = Task(view, leaf, depends[name], ancestors)
            self._check_arguments(task, path, tasks)
            tasks[name] = task
        return tuple(tasks.values())

    def _depends(self, template: str, dag: DagView, view: TaskView) -> Depends | None:
        path = f"spec.templates[{template}].dag.tasks[{view.name}]"
        if not _TASK_NAME.fullmatch(view.name) or view.name == EXIT_NODE:
            self._refuse(path, f"a task cannot be called {view.name!r}", "letters, digits and hyphens, a letter first")
        if sum(task.name == view.name for task in dag.tasks) > 1:
            self._refuse(path, "there are several tasks of this name", "rename one")
        if not view.depends:
            return None
        try:
            depends = parse_depends(view.depends)
        except ExpressionError as error:
            self._refuse(f"{path}.depends", str(error))
            return None
        for name in depends.tasks:
            if dag.task(name) is None:
                self._refuse(f"{path}.depends", f"there is no task {name!r}")
        return depends

    def _check_arguments(self, task: Task, path: str, tasks: Mapping[str, Task]) -> None:
        given, inputs = task.view.arguments.values(), task.leaf.template.inputs.values()
        for name in inputs.keys() - given.keys():
            if inputs[name] is None:
                self._refuse(f"{path}.arguments", f"{task.leaf.name} needs {name!r}", "hand it over")
        outputs = {tag for name in task.ancestors for tag in _outputs_of(tasks[name])}
        known = outputs | ({"item"} if task.view.with_sequence else set())
        for name in sorted(given):
            where = f"{path}.arguments.parameters[{name}]"
            if name not in inputs:
                self._refuse(where, f"{task.leaf.name} has no input of this name", "declare it, or remove it")
            if given[name] is None:
                self._refuse(where, "has no value")
            self._check_tags(given[name], where, known, "use an output of a task this one waits for")

    def _check_leaf_tags(self, template: TemplateView, path: str) -> None:
        known = {f"inputs.parameters.{name}" for name in template.inputs.values()}
        if template.retry_strategy is not None:
            known.add("retries")
        if template == exit_leaf(self.spec):
            known |= {"workflow.status", "workflow.failures"}
        container = template.container.model_dump(by_alias=True) if template.container else {}
        self._check_tags(container, f"{path}.container", known, "{{retries}} needs a retryStrategy")
        self._check_tags(template.pod_spec_patch, f"{path}.podSpecPatch", set())
        for name, value in template.inputs.values().items():
            self._check_tags(value, f"{path}.inputs.parameters[{name}]", set())

    def _check_tags(self, value: Any, path: str, known: set[str], fix: str = "") -> None:
        known = known | {"workflow.name", *(f"workflow.parameters.{name}" for name in self.parameters)}
        for where, tag in tags(value, path):
            if tag is None:
                self._refuse(where, "holds '{{' without '}}'", "in JSON, write \\u007b for a brace")
            elif tag not in known:
                self._refuse(where, f"{{{{{tag}}}}} is not known there", fix)


def _outputs_of(task: Task) -> list[str]:
    """Tags that stand for outputs of `task`; of a sequence each is a list. The list of all outputs is for withItems."""
    return [f"tasks.{task.name}.outputs.parameters.{name}" for name in task.leaf.outputs]


def _in_order(waits_for: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Names such that each comes after those it waits for; names in a cycle are left out."""
    ordered: list[str] = []
    left = dict(waits_for)
    while ready := [name for name, needs in left.items() if not any(need in left for need in needs)]:
        ordered += ready
        for name in ready:
            del left[name]
    return ordered
