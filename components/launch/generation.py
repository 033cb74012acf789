"""Runs one generation of the gang: look, let the state machine decide, act, wait for the next event."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from components.contracts.clock import now_text, parse_utc
from components.contracts.gang import GangSpec, GangState, GenerationView
from components.contracts.lifecycle import RunState
from components.contracts.units import format_duration
from components.errors import RETRIED_BY_ARGO, ArgosyError, ExitCode
from components.launch.account import Account, Standing, standing_in_queue, standing_of
from components.launch.backend import AgentPhase, AgentStatus, GangBackend
from components.launch.failure_policy import Budget, Decision, Finish, NewGeneration, StopCause
from components.launch.gang import (
    Action,
    Observation,
    RemoveGang,
    StopGang,
    Stopping,
    cause_of_taking,
    next_action,
)
from components.launch.history import History, read_gang_state
from components.launch.missing import Complaints, missing_at_start, read_node_checks, what_it_avoids
from components.launch.narration import Narrator
from components.launch.queue import PREEMPTED, SUSPENDED, QueuePhase, QueueStanding, requeue_seconds
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
        self._created_at = self._news_at - _age(adopted.created_at if adopted else None)
        if adopted is not None and adopted.admitted_at is not None:
            self._created_at = self._news_at - _age(adopted.admitted_at)
        self._queue: QueueStanding | None = None
        self._queued_at = self._created_at
        self._told_of_queue = ""
        self._first_exit_at: float | None = None
        self._node_lost_at: float | None = None
        self._stopped_at = 0.0
        self._cause: StopCause | None = None
        self._missing = ""
        self._complaints = Complaints(around.log)
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
        if isinstance(decision, Finish) and decision.reason == StopCause.QUEUE_DEADLINE and self._was_preempted:
            decision = replace(decision, exit_code=ExitCode.PREEMPTED)
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
            self._look_at_queue()
            if not self._is_waiting:  # without pods there is nothing to read
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
        self._complaints.look(agents, since_creation=time.monotonic() - self._created_at)
        self._look_at_nodes(agents)
        self._relay.poll(self._state)

    def _look_at_queue(self) -> None:
        """After the agents: when the last of them has ended, the queue's part in it is known already."""
        was_admitted = self._view.admitted_at is not None or self._state is not None
        self._queue = self._around.backend.queue_standing(since=self._view.created_at, was_admitted=was_admitted)
        if self._queue is None:
            return
        if self._cause in _TAKEN and self._queue.phase is QueuePhase.TAKEN and self._queue.reason != SUSPENDED:
            # The gang's object may be seen to be suspended before Kueue's reason is.
            self._cause, self._missing = cause_of_taking(self._queue), self._queue.message
        told = f"{self._queue.reason}: {self._queue.message}"
        if self._queue.view is not None and self._queue.view.position is not None:
            told = f"{told}; number {self._queue.view.position} of {self._queue.view.num_waiting}"
        if self._is_waiting and told != self._told_of_queue:
            self._told_of_queue = told
            self._around.log.info(f"the gang waits in its queue: {told}", reason=self._queue.reason)
        if self._queue.phase is QueuePhase.ADMITTED and self._view.admitted_at is None:
            now = time.monotonic()
            waited = now - self._queued_at
            self._view = self._view.model_copy(update={"admitted_at": now_text(), "queued_seconds": waited})
            self._created_at = self._news_at = now
            self._around.log.info(f"the queue admits the gang after {format_duration(round(waited))}")
        elif self._is_waiting:
            waited = time.monotonic() - self._queued_at
            self._view = self._view.model_copy(update={"queued_seconds": float(round(waited))})

    @property
    def _is_waiting(self) -> bool:
        return self._queue is not None and self._queue.phase is QueuePhase.WAITING

    @property
    def _was_preempted(self) -> bool:
        return self._view.begin_reason == PREEMPTED

    def _queue_seconds(self) -> float:
        rule = self._around.backend.queue
        if rule is None:
            return 0.0
        return requeue_seconds(
            self._history.generations, generation=self._view.generation, reason=self._view.begin_reason,
            limit=rule.limit_seconds,
        )  # fmt: skip

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
            queue=self._queue,
            since_queued=now - self._queued_at,
        )  # fmt: skip
        backend = self._around.backend
        return next_action(
            seen, limits=self._spec.limits, intent=self._around.intent(), flush_seconds=self._spec.flush_seconds,
            budget=self._budget, survives_launcher=backend.survives_launcher, lost_node=backend.lost_node,
            queue_seconds=self._queue_seconds(),
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
            self._missing = missing_at_start(
                agents, self._state, reports, start_seconds=spec.limits.start_seconds
            ) + what_it_avoids(self._view, self._history.generations)
        if cause in _THE_QUEUES:
            self._missing = self._told_by_queue()
        if cause in _TAKEN and _any_runs(agents):
            # Kueue has told its pods to go. Until they are gone the gang's object stays, which holds its quota.
            return
        self._around.backend.stop()

    def _told_by_queue(self) -> str:
        assert self._queue is not None
        if self._queue.phase is not QueuePhase.WAITING:
            return self._queue.message
        waited = format_duration(round(time.monotonic() - self._queued_at))
        queue = self._queue.view
        place = f" as number {queue.position} of {queue.num_waiting}" if queue and queue.position else ""
        return f"waited {waited}{place} in queue {queue.name if queue else ''}: {self._queue.message}"

    def _remove(self, cause: StopCause) -> None:
        self._around.log.warning("the gang is removed by force", reason=cause.value)
        self._is_removed = True
        if self._cause is None:
            self._cause, self._stopped_at = cause, time.monotonic()
        self._around.backend.remove()

    def _tell(self) -> None:
        self._around.account.tell(self._standing(), self.history, now=time.monotonic())

    def _standing(self) -> Standing:
        if self._queue is not None and self._queue.view is not None and self._cause is None:
            return standing_in_queue(self._queue.view, was_preempted=self._was_preempted)
        if self._queue is None and self._around.backend.queue is not None and self._view.admitted_at is None:
            return Standing(RunState.PREEMPTED if self._was_preempted else RunState.QUEUED)
        if self._cause is StopCause.PREEMPTED:
            return Standing(RunState.PREEMPTED, PREEMPTED, self._missing)
        return standing_of(self._state, held_up=self._complaints.text)


_TAKEN = (StopCause.PREEMPTED, StopCause.EVICTED)
_THE_QUEUES = (StopCause.QUEUE_DEADLINE, StopCause.QUEUE_REFUSED, *_TAKEN)


def _any_runs(agents: tuple[AgentStatus, ...]) -> bool:
    return any(agent.phase is AgentPhase.RUNNING for agent in agents)


def _age(at: str | None) -> float:
    """Seconds since then by this machine's clock; 0 for a time that is not known."""
    return 0.0 if at is None else max(0.0, (parse_utc(now_text()) - parse_utc(at)).total_seconds())
