"""What earlier launchers and generations of this run left behind, and what this launcher therefore begins with."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from components.contracts.clock import now_text
from components.contracts.document import DamagedDocument
from components.contracts.gang import AgentProcess, GangState, GenerationView, LaunchState
from components.contracts.layout import gang_folder, gang_state_key, launch_state_key
from components.errors import RETRIED_BY_ARGO, ExitCode
from components.launch.backend import NODE_LOST, AgentPhase, AgentStatus
from components.launch.failure_policy import Budget, Decision, Ending, NewGeneration, decide
from components.launch.queue import PREEMPTED
from components.ledger.state import LedgerState, restarts_used
from components.storage.base import ObjectNotFound, ObjectStore

State = TypeVar("State", LaunchState, GangState)


@dataclass(frozen=True)
class History:
    """Everything of this run up to now, oldest generation first."""

    launch: LaunchState | None = None
    generations: tuple[GenerationView, ...] = ()
    states: tuple[GangState, ...] = ()
    """What agent 0 of each generation left; a generation that never got that far has none."""

    @property
    def next_generation(self) -> int:
        return self.generations[-1].generation + 1 if self.generations else 0

    @property
    def agents(self) -> tuple[AgentProcess, ...]:
        return tuple(agent for view in self.generations for agent in view.agents)

    @property
    def run_seconds_used(self) -> float:
        """Ranks' running time so far; agent 0 counts on from what its GangSpec says, so the largest is the total."""
        return max((state.run_seconds_used for state in self.states), default=0.0)

    def state_of(self, generation: int) -> GangState | None:
        return next((state for state in self.states if state.generation == generation), None)

    def with_generation(self, view: GenerationView, state: GangState | None) -> "History":
        """This history and one generation, which replaces what is known of it."""
        others = tuple(item for item in self.generations if item.generation != view.generation)
        states = tuple(item for item in self.states if item.generation != view.generation)
        return replace(
            self, generations=(*others, view), states=(*states, *((state,) if state is not None else ()))
        )  # fmt: skip


def read_history(store: ObjectStore, run: str, *, warn: Callable[[str], None]) -> History:
    """Read what is there. A damaged document is reported through `warn` and counts as not written."""
    launch = read_launch_state(store, run, warn=warn)
    views = {view.generation: view for view in (launch.generations if launch else ())}
    states: list[GangState] = []
    generation = 0
    while generation in views or any(True for _ in store.list(gang_folder(run, generation=generation))):
        state = read_gang_state(store, run, generation=generation, warn=warn)
        states.extend([state] if state else [])
        created_at = state.created_at if state else now_text()  # nobody wrote down when: it was found now
        views.setdefault(generation, GenerationView(generation=generation, created_at=created_at))
        generation += 1
    return History(launch, tuple(views[number] for number in sorted(views)), tuple(states))


def read_launch_state(store: ObjectStore, run: str, *, warn: Callable[[str], None]) -> LaunchState | None:
    """The newest launcher's account, or None."""
    return _read(store, launch_state_key(run), LaunchState, warn)


def read_gang_state(
    store: ObjectStore, run: str, *, generation: int, warn: Callable[[str], None]
) -> GangState | None:  # fmt: skip
    """What agent 0 of `generation` wrote last, or None."""
    return _read(store, gang_state_key(run, generation=generation), GangState, warn)


def _read(store: ObjectStore, key: str, kind: type[State], warn: Callable[[str], None]) -> State | None:
    try:
        return kind.from_bytes(store.read(key), where=store.uri_of(key))
    except ObjectNotFound:
        return None
    except DamagedDocument as error:
        warn(str(error))
        return None


def count_restarts(history: History, ledger: LedgerState, run: str) -> int:
    """Restarts this run has used: charged BEGINs, and charged generations that ended before their BEGIN.

    With `checkpoint: none` there are no BEGINs; then agent 0's own count stands.
    """
    begun = {begin.generation for begin in ledger.begins_of(run)}
    by_ledger = restarts_used(ledger, run)
    by_ledger += sum(view.charged for view in history.generations if view.generation not in begun)
    by_agents = 0
    for view in history.generations:
        state = history.state_of(view.generation)
        by_agents = state.restarts_used if state and state.attempts else by_agents + view.charged
    return max(by_ledger, by_agents)


def begin_after(history: History, budget: Budget) -> Decision:
    """What a launcher that has just started does: a first or next generation, or only its predecessor's conclusion."""
    if not history.generations:
        return NewGeneration("Start", "the run begins", charged=False)
    last = history.generations[-1]
    state = history.state_of(last.generation)
    recorded = history.launch.exit_code if history.launch else None
    if last.reason == PREEMPTED and last.exit_code is not None and recorded in (None, *RETRIED_BY_ARGO):
        return NewGeneration(PREEMPTED, last.message, charged=False)
    if last.exit_code == ExitCode.OK and recorded in (None, ExitCode.OK, *RETRIED_BY_ARGO):
        return decide(_ending(ExitCode.OK, state), budget)
    if recorded in RETRIED_BY_ARGO:
        return NewGeneration("LauncherInterrupted", "the launcher before was interrupted", charged=False)
    if recorded is not None:
        return NewGeneration("Resumed", f"the run ended with exit code {recorded} and was resumed", charged=False)
    # The launcher before left no word of its own: it was killed, or its machine or its engine was.
    verdict = last.exit_code if last.exit_code is not None else (state.exit_code if state else None)
    if last.exit_code is None and verdict in (None, *_SAYS_LITTLE):
        return NewGeneration("LauncherLost", "the launcher before was killed", charged=False)
    return decide(_ending(verdict, state), budget)


_SAYS_LITTLE = (ExitCode.STOPPED, ExitCode.PEER_LOST, ExitCode.TRANSIENT)
"""Verdicts that a launcher's own end may have caused."""


def nodes_to_avoid(history: History, ranks: tuple[int, ...]) -> tuple[str, ...]:
    """Kubernetes nodes the next generation stays away from: those of `ranks` in the last one, and every one that was
    found unfit. A lost node is avoided once only: it may come back healthy.
    """
    avoided: tuple[str, ...] = ()
    for view in history.generations:
        if view.begin_reason != NODE_LOST:
            avoided = view.excluded_nodes
    nodes = history.generations[-1].nodes if history.generations else ()
    named = {nodes[rank] for rank in ranks if rank < len(nodes)} - {""}
    return tuple(sorted({*avoided, *named}))


def _ending(exit_code: int | None, state: GangState | None) -> Ending:
    return Ending((AgentStatus(0, AgentPhase.EXITED, exit_code=exit_code),), state)
