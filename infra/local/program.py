"""A Workflow as the engine walks it: every reference resolved, every expression parsed. `reader.py` makes it."""

from collections.abc import Mapping
from dataclasses import dataclass

from components.contracts.node_names import EXIT_NODE
from infra.local.expressions import Depends, RetryExpression
from infra.workflow import TaskView, TemplateView, Workflow


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
class ExitHandler:
    """The container that runs at the end, whatever the end."""

    node: str
    """`onExit` when the container is the exit handler itself, `onExit[0].finish` when it is its one step."""
    leaf: Leaf

    @property
    def is_step(self) -> bool:
        return self.node != EXIT_NODE


@dataclass(frozen=True)
class Program:
    """What the engine walks."""

    workflow: Workflow
    tasks: tuple[Task, ...]
    """Every task after those it waits for."""
    targets: tuple[str, ...]
    """Tasks nothing waits for, by name: their phases decide the DAG's."""
    fail_fast: bool
    exit_handler: ExitHandler | None
    parameters: Mapping[str, str]

    @property
    def deadline_seconds(self) -> int | None:
        return self.workflow.spec.active_deadline_seconds
