"""Runs one generation of the gang: look, let the state machine decide, act, wait for the next event."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from components.contracts.clock import now_text
from components.contracts.gang import GangSpec, GangState, GenerationView
from components.errors import ArgosyError
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

POLL_SECONDS = 0.5


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
        self, around: Surroundings, spec: GangSpec, history: History, *, budget_of: Callable[[History], Budget]
    ) -> None:
        self._around, self._spec, self._history, self._budget_of = around, spec, history, budget_of
        self._relay = LogRelay(
            around.store, run=spec.run, generation=spec.generation, write=around.write, log=around.log
        )
        self._narrator = Narrator(around.log, generation=spec.generation)
        self._view = GenerationView(
            generation=spec.generation, created_at=now_text(), begin_reason=spec.begin_reason,
            charged=spec.begin_charged,
        )  # fmt: skip
        self._state: GangState | None = None
        self._created_at = self._news_at = time.monotonic()
        self._first_exit_at: float | None = None
        self._stopped_at = 0.0
        self._cause: StopCause | None = None
        self._missing = ""
        self._is_blind = False
        self._budget = budget_of(history)

    @property
    def history(self) -> History:
        """The run's history, this generation included, as it stands now."""
        return self._history.with_generation(self._view, self._state)

    def run(self) -> Decision:
        """Start the agents and stay until all have ended and nothing of them is left. Returns what follows."""
        # The account names the generation before it exists: a launcher that comes after must not reuse its name.
        self._tell()
        try:
            agents = self._around.backend.start(self._spec)
            self._view = self._view.model_copy(update={"agents": agents})
            decision = self._follow()
        finally:
            self._around.backend.remove()
            self._view = self._view.model_copy(update={"ended_at": now_text()})
        self._view = self._view.model_copy(
            update={"exit_code": int(decision.exit_code), "reason": str(decision.reason), "message": decision.seen}
        )
        return decision

    def _follow(self) -> Decision:
        while True:
            agents = self._around.backend.observe()
            self._look(agents)
            action = self._next(agents)
            if isinstance(action, Finish | NewGeneration):
                return action
            if isinstance(action, RemoveGang):
                self._remove(action.cause)
                continue
            if isinstance(action, StopGang):
                self._stop(action.cause, agents)
            self._tell()
            self._around.wakeup.wait(POLL_SECONDS)

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
        self._relay.poll(self._state)

    def _next(self, agents: tuple[AgentStatus, ...]) -> Action:
        now = time.monotonic()
        if all(agent.has_exited for agent in agents):
            self._budget = self._budget_of(self.history)  # agent 0 spends from it too, but only the last count matters
        seen = Observation(
            agents, self._state,
            since_creation=now - self._created_at,
            since_news=now - self._news_at,
            since_first_exit=None if self._first_exit_at is None else now - self._first_exit_at,
        )  # fmt: skip
        return next_action(
            seen, limits=self._spec.limits, intent=self._around.intent(), flush_seconds=self._spec.flush_seconds,
            budget=self._budget,
            stopping=Stopping(self._cause, now - self._stopped_at, self._missing) if self._cause else None,
        )  # fmt: skip

    def _stop(self, cause: StopCause, agents: tuple[AgentStatus, ...]) -> None:
        self._around.log.info("the gang is stopped", reason=cause.value)
        self._cause, self._stopped_at = cause, time.monotonic()
        if cause is StopCause.START_DEADLINE:
            spec = self._spec
            reports = read_node_checks(
                self._around.store, spec.run, generation=spec.generation, num_nodes=spec.num_nodes
            )
            self._missing = missing_at_start(agents, self._state, reports, start_seconds=spec.limits.start_seconds)
        self._around.backend.stop()

    def _remove(self, cause: StopCause) -> None:
        self._around.log.warning("the gang is removed by force", reason=cause.value)
        self._cause = self._cause or cause
        self._around.backend.remove()

    def _tell(self) -> None:
        self._around.account.tell(standing_of(self._state), self.history, now=time.monotonic())
