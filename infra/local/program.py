"""A manifest read for execution: every reference resolved, every expression parsed, everything unclear refused.

After `load_program` nothing about the manifest itself can go wrong any more; what remains are facts of the run.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from components.errors import BadInput, Problem
from infra.local.expressions import Depends, ExpressionError, RetryExpression, parse_depends, parse_retry
from infra.local.names import EXIT_NODE
from infra.local.substitution import tags
from infra.workflow import DagView, TaskView, TemplateView, Workflow, load_workflow

DEFAULT_GRACE_SECONDS = 30.0
"""terminationGracePeriodSeconds of a pod that does not say."""
OUTPUT_FOLDER = "/argosy/out/"
_TASK_NAME = re.compile(r"[A-Za-z][-A-Za-z0-9]*")
_OUTPUT = re.compile(r"tasks\.(?P<task>[^.]+)\.outputs\.parameters(?:\.(?P<name>[^.]+))?")


@dataclass(frozen=True)
class Leaf:
    """A container template."""

    template: TemplateView
    expression: RetryExpression | None
    grace_seconds: float
    outputs: Mapping[str, str]
    """Output parameter -> file name in the attempt's out folder."""

    @property
    def name(self) -> str:
        return self.template.name


@dataclass(frozen=True)
class Task:
    """A task of the entry DAG."""

    view: TaskView
    leaf: Leaf
    depends: Depends | None
    ancestors: frozenset[str]

    @property
    def name(self) -> str:
        return self.view.name

    @property
    def waits_for(self) -> tuple[str, ...]:
        return self.depends.tasks if self.depends else ()


@dataclass(frozen=True)
class Program:
    """What the engine walks."""

    workflow: Workflow
    tasks: tuple[Task, ...]
    """Every task after those it waits for."""
    targets: tuple[str, ...]
    """Tasks nothing waits for, by name: their phases decide the DAG's."""
    fail_fast: bool
    exit_leaf: Leaf | None
    parameters: Mapping[str, str]

    @property
    def deadline_seconds(self) -> int | None:
        return self.workflow.spec.active_deadline_seconds


def load_program(manifest: Any, *, where: str = "manifest") -> Program:
    """Read `manifest` for execution. Raises BadInput with the path of everything the engine cannot honour."""
    workflow = load_workflow(manifest, where=where)
    reader = _ProgramReader(workflow)
    program = reader.read()
    if program is None or reader.problems:
        raise BadInput(
            "UnsupportedWorkflow",
            f"{where} cannot be run here",
            "run what `compile` prints, unchanged",
            problems=reader.problems,
        )
    return program


class _ProgramReader:
    def __init__(self, workflow: Workflow) -> None:
        self.workflow, self.spec = workflow, workflow.spec
        self.problems: list[Problem] = []
        self.parameters = {name: value for name, value in self.spec.arguments.values().items() if value is not None}

    def read(self) -> Program | None:
        for name, value in self.spec.arguments.values().items():
            if value is None:
                self._refuse(f"spec.arguments.parameters[{name}]", "has no value", f"give one with -p {name}=…")
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
        exit_leaf = self._exit_leaf(leaves)
        waited_for = {name for task in tasks for name in task.waits_for}
        targets = tuple(sorted(task.name for task in tasks if task.name not in waited_for))
        return Program(self.workflow, tasks, targets, entry.dag.fail_fast, exit_leaf, self.parameters)

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
        if retry.backoff is not None:
            try:
                retry.backoff.wait_seconds(0)
            except ValueError as error:
                self._refuse(f"{path}.retryStrategy.backoff", str(error))
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
            patch = json.loads(template.pod_spec_patch)
            grace = float(patch.get("terminationGracePeriodSeconds", DEFAULT_GRACE_SECONDS))
        except (ValueError, TypeError, AttributeError):
            self._refuse(f"{path}.podSpecPatch", "is not a JSON object with a number of seconds to end in")
            return DEFAULT_GRACE_SECONDS
        return grace

    def _exit_leaf(self, leaves: Mapping[str, Leaf]) -> Leaf | None:
        if self.spec.on_exit is None:
            return None
        leaf = leaves.get(self.spec.on_exit)
        if leaf is None:
            self._refuse("spec.onExit", f"{self.spec.on_exit!r} is not a container template", "name one")
        elif any(parameter.value is None for parameter in leaf.template.inputs.parameters):
            self._refuse("spec.onExit", f"{leaf.name} has inputs, and nothing can hand them over")
        return leaf

    def _tasks(self, template: str, dag: DagView, leaves: Mapping[str, Leaf]) -> tuple[Task, ...]:
        tasks: dict[str, Task] = {}
        depends = {view.name: self._depends(template, dag, view) for view in dag.tasks}
        for name in _in_order({name: item.tasks if item else () for name, item in depends.items()}):
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
        for name in depends.keys() - tasks.keys():
            if not self.problems:
                self._refuse(f"spec.templates[{template}].dag.tasks[{name}].depends", "waits for itself")
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
        for name in sorted(given):
            where = f"{path}.arguments.parameters[{name}]"
            if name not in inputs:
                self._refuse(where, f"{task.leaf.name} has no input of this name", "declare it, or remove it")
            if given[name] is None:
                self._refuse(where, "has no value")
            for tag in self._foreign(given[name]):
                if not (tag == "item" and task.view.with_sequence) and not _is_output(tag, task, tasks):
                    self._refuse(where, f"{{{{{tag}}}}} is not known there", "an output of a task this one waits for")

    def _check_leaf_tags(self, template: TemplateView, path: str) -> None:
        inputs = {f"inputs.parameters.{name}" for name in template.inputs.values()}
        if template.retry_strategy is not None:
            inputs.add("retries")
        if template.name == self.spec.on_exit:
            inputs |= {"workflow.status", "workflow.failures"}
        container = template.container.model_dump(by_alias=True) if template.container else {}
        patch = template.pod_spec_patch or ""
        for where, tag in [*tags(container, f"{path}.container"), *tags(patch, f"{path}.podSpecPatch")]:
            if tag not in inputs and tag in self._foreign(f"{{{{{tag}}}}}"):
                fix = "it needs a retryStrategy" if tag == "retries" else ""
                self._refuse(where, f"{{{{{tag}}}}} is not known there", fix)
        for name, value in template.inputs.values().items():
            for tag in self._foreign(value):
                self._refuse(f"{path}.inputs.parameters[{name}]", f"{{{{{tag}}}}} is not known there")

    def _foreign(self, value: Any) -> Iterator[str]:
        """Tags in `value` that are no workflow variables."""
        known = {"workflow.name", *(f"workflow.parameters.{name}" for name in self.spec.arguments.values())}
        for _, tag in tags(value):
            if tag not in known:
                yield tag


def _is_output(tag: str, task: Task, tasks: Mapping[str, Task]) -> bool:
    match = _OUTPUT.fullmatch(tag)
    if match is None or match["task"] not in task.ancestors:
        return False
    producer = tasks[match["task"]]
    if match["name"] is None:
        return producer.view.with_sequence is not None  # the list of all items' outputs
    return match["name"] in producer.leaf.outputs


def _in_order(waits_for: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Names such that each comes after those it waits for; names in a cycle are left out."""
    ordered: list[str] = []
    left = dict(waits_for)
    while ready := [name for name, needs in left.items() if not any(need in left for need in needs)]:
        ordered += ready
        for name in ready:
            del left[name]
    return ordered
