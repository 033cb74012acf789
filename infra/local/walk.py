"""The DAG walk: what is ready, what is left out, what is over. Decides from the fold alone; starts nothing itself.

Decisions become events through `record`, so a walk that is interrupted anywhere and begun again decides the same.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from components.contracts.clock import utc_text
from components.contracts.node_names import EXIT_NODE, is_exit_node, item_node
from infra.local.events import Event, NodeCreated, NodeEnded, NodeNoted, Phase
from infra.local.program import ExitHandler, Leaf, Program, Task
from infra.local.retry import End, Wait, after_failure
from infra.local.state import Fold, NodeState
from infra.local.substitution import SubstitutionError
from infra.local.variables import group_items, task_arguments


@dataclass(frozen=True)
class Halt:
    """Why nothing new may start. The words are Argo's."""

    node_message: str
    retry_message: str
    spares_exit_handler: bool


@dataclass(frozen=True)
class Ready:
    """A node whose next attempt may start."""

    node: str
    leaf: Leaf
    arguments: Callable[[], Mapping[str, str]]
    attempt: int


@dataclass
class Walk:
    """One pass over the tasks at `now`."""

    program: Program
    fold: Fold
    record: Callable[[Event], None]
    now: datetime
    variables: Mapping[str, str]
    halt: Halt | None = None
    ready: list[Ready] = field(default_factory=list)
    """What may start, in the order it became ready."""
    wake_at: datetime | None = None
    """When the next backoff is over."""

    def tasks(self) -> None:
        """Advance every task of the DAG, each after those it waits for."""
        for task in self.program.tasks:
            node = self.fold.nodes.get(task.name)
            if node is None or not node.is_created:
                if not all(self._is_fulfilled(name) for name in task.waits_for):
                    continue
                self._create(task)
            node = self.fold.nodes[task.name]
            if node.kind == "TaskGroup":
                self._advance_group(task, node)
            elif node.kind != "Skipped":
                self._advance(node, task.leaf, partial(task_arguments, task, self.fold.nodes, self.variables))

    def exit_handler(self, handler: ExitHandler) -> None:
        """Advance the exit handler."""
        node = self.fold.nodes.get(handler.node)
        if node is None or not node.is_created:
            self._create_leaf(handler.node, EXIT_NODE, handler.leaf)
        self._advance(self.fold.nodes[handler.node], handler.leaf, dict)

    def _create(self, task: Task) -> None:
        if task.depends and not task.depends.holds({name: self._results(name) for name in task.waits_for}):
            self._leave_out(task, "Omitted", "omitted: depends condition not met")
            return
        sequence = task.view.with_sequence
        try:
            # Resolved here too, so that a missing output is an Error of this node before any of its items exists.
            task_arguments(task, self.fold.nodes, self.variables)
        except SubstitutionError as error:
            self._leave_out(task, "Error", str(error))
            return
        if sequence is None:
            self._create_leaf(task.name, task.name, task.leaf)
        elif not sequence.items():
            self._leave_out(task, "Skipped", "Skipped, empty params")
        else:
            self._record_created(task.name, task.name, task.leaf, "TaskGroup", "Running", items=sequence.items())

    def _leave_out(self, task: Task, phase: Phase, message: str) -> None:
        self._record_created(task.name, task.name, task.leaf, "Skipped", phase, message)

    def _create_leaf(self, name: str, task: str, leaf: Leaf) -> None:
        kind = "Retry" if leaf.template.retry_strategy else "Pod"
        halt = self._halt_for(name)
        if halt:
            self._record_created(name, task, leaf, kind, "Failed", halt.node_message)
        else:
            self._record_created(name, task, leaf, kind, "Pending")

    def _record_created(
        self,
        name: str,
        task: str,
        leaf: Leaf,
        kind: str,
        phase: Phase,
        message: str = "",
        items: tuple[str, ...] = (),
    ) -> None:
        self.record(
            NodeCreated.model_validate(
                {
                    "at": utc_text(self.now),
                    "node": name,
                    "task": task,
                    "template": leaf.name,
                    "kind": kind,
                    "phase": phase,
                    "message": message,
                    "items": items,
                }
            )
        )

    def _advance_group(self, task: Task, group: NodeState) -> None:
        if group.is_fulfilled:
            return
        for index, item in enumerate(group.items):
            name = item_node(task.name, index, item)
            node = self.fold.nodes.get(name)
            if node is None or not node.is_created:
                self._create_leaf(name, task.name, task.leaf)
            arguments = partial(task_arguments, task, self.fold.nodes, self.variables, item=item)
            self._advance(self.fold.nodes[name], task.leaf, arguments)
        items = group_items(group, self.fold.nodes)
        if all(node.is_fulfilled for node in items):
            failed: list[Phase] = [node.phase for node in items if node.phase in ("Failed", "Error")]
            self._end(group, failed[-1] if failed else "Succeeded", "")

    def _advance(self, node: NodeState, leaf: Leaf, arguments: Callable[[], Mapping[str, str]]) -> None:
        if node.is_fulfilled:
            return
        last, retry, halt = node.last, leaf.template.retry_strategy, self._halt_for(node.name)
        if last is not None and last.finished_at is None:
            return
        if last is None or last.is_lost or len(node.attempts) == node.budget_from:
            if halt:
                self._end(node, "Failed", halt.node_message)
            else:
                self.ready.append(Ready(node.name, leaf, arguments, len(node.attempts)))
            return
        if last.phase == "Succeeded" or retry is None:
            self._end(node, last.phase, last.message)
            return
        verdict = after_failure(
            retry, leaf.expression, charged=node.charged, last=last, now=self.now,
            halted=self.halt.retry_message if self.halt else "",
        )  # fmt: skip
        if isinstance(verdict, End):
            self._end(node, verdict.phase, verdict.message)
        elif isinstance(verdict, Wait):
            self.wake_at = min(self.wake_at or verdict.until, verdict.until)
            if node.note != verdict.message:
                self.record(NodeNoted(at=utc_text(self.now), node=node.name, message=verdict.message))
        else:
            self.ready.append(Ready(node.name, leaf, arguments, len(node.attempts)))

    def _end(self, node: NodeState, phase: Phase, message: str) -> None:
        self.record(NodeEnded(at=utc_text(self.now), node=node.name, phase=phase, message=message))

    def _halt_for(self, node: str) -> Halt | None:
        return None if self.halt and is_exit_node(node) and self.halt.spares_exit_handler else self.halt

    def _is_fulfilled(self, name: str) -> bool:
        node = self.fold.nodes.get(name)
        return node is not None and node.is_fulfilled

    def _results(self, name: str) -> frozenset[str]:
        """The task results of `depends` that hold for a task that is over."""
        node = self.fold.nodes[name]
        results: set[str] = {"Errored" if node.phase == "Error" else node.phase}
        if node.kind == "TaskGroup":
            phases = [item.phase for item in group_items(node, self.fold.nodes)]
            results |= {"AnySucceeded"} if "Succeeded" in phases else set()
            results |= {"AllFailed"} if phases and set(phases) == {"Failed"} else set()
        return frozenset(results)


def dag_phase(program: Program, nodes: Mapping[str, NodeState]) -> Phase:
    """The phase of the whole DAG: Running until every node that was created is over, then what its targets came to.

    A target that was omitted inherits the phase of the branch that led to it; a failure wins over a success.
    """
    children: dict[str, list[str]] = {}
    for task in program.tasks:
        for parent in task.waits_for:
            children.setdefault(parent, []).append(task.name)
    phases: dict[str, Phase | None] = dict.fromkeys(program.targets)
    queue: list[tuple[str, Phase]] = [(task.name, "Succeeded") for task in program.tasks if not task.waits_for]
    for name, inherited in queue:  # grows while it is walked
        node = nodes.get(name)
        if node is None or not node.is_created:
            continue
        if not node.is_fulfilled:
            return "Running"
        branch = node.phase if node.is_completed else inherited
        if name in phases and phases[name] not in ("Failed", "Error"):
            phases[name] = branch
        followers = children.get(name, [])
        if node.kind == "TaskGroup":
            branches: list[Phase] = [item.phase for item in group_items(node, nodes)]
        else:
            branches = [branch]
        new = [(follower, phase) for phase in dict.fromkeys(branches) for follower in followers]
        queue.extend(entry for entry in new if entry not in queue)
    return _of_targets(program, phases)


def _of_targets(program: Program, phases: Mapping[str, Phase | None]) -> Phase:
    result: Phase = "Succeeded"
    for target in program.targets:
        phase = phases[target]
        if phase is None:
            result = "Running"
            if not program.fail_fast:
                break
        elif phase in ("Failed", "Error"):
            result = phase
            if program.fail_fast:
                break
    return result
