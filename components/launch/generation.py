"""Runs one generation of the gang: look, let the state machine decide, act, wait for the next event."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from components.contracts.clock import now_text, parse_utc
from components.contracts.gang import GangSpec, GangState, GenerationView
from components.errors import RETRIED_BY_ARGO, ArgosyError, ExitCode
from components.launch.account import Account, standing_of
from components.launch.backend import AgentStatus, GangBackend
from components.launch.failure_policy import Budget, Decision, Finish, NewGeneration, StopCause
from components.launch.gang import Action, Observation, RemoveGang, StopGang, Stopping, next_action
from components.launch.history import History, read_gang_state
from components.launch.missing import missing_at_start, read_node_checks
from components.launch.narration import Narrator
from components.launch.relay import LogRelay
from components.launch.wakeup import Wakeup
from components.runtime.log import Log
from components.storage.base import ObjectStore


@dataclass(frozen=True)
class Surroundings:
    """What every generation of a launcher works with."""

    store: ObjectStore
    backend: GangBackend
    wakeup: Wakeup
    account: Account
    log: Log
    intent: Callable[[], StopCause | None]
    """Why the launcher was told to go; None while it was not."""
    write: Callable[[str], None]
    """Takes log lines that are JSON already."""


class Generation:
    """One generation from its agents' start to the decision about what follows."""

    def __init__(
        self, around: Surroundings, spec: GangSpec, history: History, *, budget_of: Callable[[History], Budget],
        excluded_nodes: tuple[str, ...] = (), adopted: GenerationView | None = None,
    ) -> None:  # fmt: skip
        """`adopted`: what the launcher that started it wrote down; it runs already."""
        self._around, self._spec, self._history, self._budget_of = around, spec, history, budget_of
        self._relay = LogRelay(
            around.store, run=spec.run, generation=spec.generation, write=around.write, log=around.log
        )
        self._narrator = Narrator(around.log, generation=spec.generation)
        self._is_adopted = adopted is not None
        self._view = adopted or GenerationView(
            generation=spec.generation, created_at=now_text(), begin_reason=spec.begin_reason,
            charged=spec.begin_charged, excluded_nodes=excluded_nodes,
        )  # fmt: skip
        self._state: GangState | None = None
        self._news_at = time.monotonic()
        self._created_at = self._news_at - _age(adopted)
        self._first_exit_at: float | None = None
        self._node_lost_at: float | None = None
        self._stopped_at = 0.0
        self._cause: StopCause | None = None
        self._missing = ""
        self._is_removed = False
        self._is_blind = False
        self._budget = budget_of(history)

    @property
    def history(self) -> History:
        """The run's history, this generation included, as it stands now."""
        return self._history.with_generation(self._view, self._state)

    def run(self) -> Decision:
        """Start the agents and stay until all have ended and nothing of them is left. Returns what follows.

        A gang that survives its launcher is left as it is when another attempt of this stage will come for it.
        """
        # The account names the generation before it exists: a launcher that comes after must not reuse its name.
        self._tell()
        survives = self._around.backend.survives_launcher
        try:
            if not self._is_adopted:
                agents = self._around.backend.start(self._spec, excluded_nodes=self._view.excluded_nodes)
                self._view = self._view.model_copy(update={"agents": agents})
            decision = self._follow()
        except BaseException as error:
            if not (survives and isinstance(error, ArgosyError) and error.exit_code in RETRIED_BY_ARGO):
                self._end()
            raise
        if survives and decision.exit_code is ExitCode.INTERRUPTED:
            return decision
        self._end()
        self._view = self._view.model_copy(
            update={"exit_code": int(decision.exit_code), "reason": str(decision.reason), "message": decision.seen}
        )
        return decision

    def _end(self) -> None:
        self._around.backend.remove()
        self._view = self._view.model_copy(update={"ended_at": now_text()})

    def _follow(self) -> Decision:
        while True:
            agents = self._around.backend.observe()
            self._look(agents)
            action = self._next(agents)
            if isinstance(action, Finish | NewGeneration):
                return action
            if isinstance(action, RemoveGang) and not self._is_removed:
                self._remove(action.cause)
                continue
            if isinstance(action, StopGang):
                self._stop(action.cause, agents)
            self._tell()
            self._around.wakeup.wait(self._around.backend.poll_seconds)

    def _look(self, agents: tuple[AgentStatus, ...]) -> None:
        """Read agent 0's state after looking at the agents, so that after the last one's end it is complete."""
        try:
            state = read_gang_state(
                self._around.store, self._spec.run, generation=self._spec.generation, warn=self._around.log.warning
            )
        except ArgosyError as error:
            # The gang may train on well while the store does not answer us; its silence proves nothing then.
            state, self._news_at = None, time.monotonic()
            if not self._is_blind:
                self._around.log.warning("cannot read the gang's state; going on", seen=str(error))
            self._is_blind = True
        if state is not None:
            self._is_blind = False
        if state is not None and state != self._state:
            self._state, self._news_at = state, time.monotonic()
            self._narrator.tell(state)
        if self._first_exit_at is None and any(agent.has_exited for agent in agents):
            self._first_exit_at = time.monotonic()
            for agent in agents:
                if agent.has_exited and agent.exit_code != ExitCode.OK:
                    where = f" on {agent.where}" if agent.where else ""
                    self._around.log.info(f"the agent of node {agent.node_rank}{where} {agent.ending()}")
        self._look_at_nodes(agents)
        self._relay.poll(self._state)

    def _look_at_nodes(self, agents: tuple[AgentStatus, ...]) -> None:
        lost = [agent for agent in agents if agent.node_lost]
        if lost and self._node_lost_at is None:
            self._node_lost_at = time.monotonic()
            for agent in lost:
                self._around.log.warning(
                    f"the machine of node {agent.node_rank} does not answer", kubernetes_node=agent.where
                )
        elif not lost:
            self._node_lost_at = None
        nodes = tuple(agent.where for agent in agents)
        if any(nodes) and nodes != self._view.nodes:
            self._view = self._view.model_copy(update={"nodes": nodes})

    def _next(self, agents: tuple[AgentStatus, ...]) -> Action:
        now = time.monotonic()
        if all(agent.has_exited for agent in agents):
            self._budget = self._budget_of(self.history)  # agent 0 spends from it too, but only the last count matters
        seen = Observation(
            agents, self._state,
            since_creation=now - self._created_at,
            since_news=now - self._news_at,
            since_first_exit=None if self._first_exit_at is None else now - self._first_exit_at,
            since_node_lost=None if self._node_lost_at is None else now - self._node_lost_at,
        )  # fmt: skip
        backend = self._around.backend
        return next_action(
            seen, limits=self._spec.limits, intent=self._around.intent(), flush_seconds=self._spec.flush_seconds,
            budget=self._budget, survives_launcher=backend.survives_launcher, lost_node=backend.lost_node,
            stopping=Stopping(self._cause, now - self._stopped_at, self._missing) if self._cause else None,
        )  # fmt: skip

    def _stop(self, cause: StopCause, agents: tuple[AgentStatus, ...]) -> None:
        self._around.log.info("the gang is stopped", reason=cause.value)
        self._cause, self._stopped_at, self._is_removed = cause, time.monotonic(), False
        if cause is StopCause.START_DEADLINE:
            spec = self._spec
            reports = read_node_checks(
                self._around.store, spec.run, generation=spec.generation, num_nodes=spec.num_nodes
            )
            self._missing = missing_at_start(agents, self._state, reports, start_seconds=spec.limits.start_seconds)
        self._around.backend.stop()

    def _remove(self, cause: StopCause) -> None:
        self._around.log.warning("the gang is removed by force", reason=cause.value)
        self._is_removed = True
        if self._cause is None:
            self._cause, self._stopped_at = cause, time.monotonic()
        self._around.backend.remove()

    def _tell(self) -> None:
        self._around.account.tell(standing_of(self._state), self.history, now=time.monotonic())


def _age(adopted: GenerationView | None) -> float:
    """Seconds since a generation was created, by this machine's clock."""
    if adopted is None:
        return 0.0
    return max(0.0, (parse_utc(now_text()) - parse_utc(adopted.created_at)).total_seconds())
