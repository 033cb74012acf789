"""The gang state machine: from what is seen of a generation, the clocks and the intent to the next action. Pure.

Queued ──admitted──► Starting (only with a queue; its own clock, limits.queue; refused or over: stopped)
Starting ──all running──► Running ⇄ Restarting (in place, agent 0's business)
    │ limits.start            │ agent gone · agent 0 silent · verdict · stop
    ▼                         ▼          quota taken back: stopped, then a new generation
 Stopping ──limits.stop──► removed ──► failure_policy: new generation | finish
"""

from dataclasses import dataclass

from components.contracts.gang import GangLimits, GangState
from components.contracts.pods import LostNodeRule
from components.launch.backend import AgentPhase, AgentStatus
from components.launch.failure_policy import (
    Budget,
    Decision,
    Ending,
    StopCause,
    decide,
    has_started,
    left_alone,
    node_not_answering,
)  # fmt: skip
from components.launch.first_failure import lost_agent
from components.launch.queue import QueuePhase, QueueStanding

FOLLOW_SECONDS = 10.0
"""How long agents get to end by themselves after one of them was lost: they notice at once, and file evidence."""

SILENT_FLUSHES = 24
"""Agent 0 writes its state every `flush_seconds`; so many missed in a row (two minutes) mean that it is stuck."""

WIND_DOWN_SECONDS = 5.0
"""Added to `limits.stop`: agents kill their ranks at that limit and then still have to leave."""

LEAVE_SECONDS = 60.0
"""Added to `limits.stop` once an agent left with a verdict: its peers may still be committing and uploading logs."""

START_SLACK_SECONDS = 3.0
"""Added to `limits.start`: agent 0 keeps that limit too and knows best what was late, if it runs at all."""

INTERRUPT_SECONDS = 20.0
"""A SIGTERM without intent is a machine in a hurry: the gang gets this long at most, and less if `limits.stop` is."""

EVIDENCE_SECONDS = 5.0
"""What a gang that cannot go on gets to file its evidence."""


@dataclass(frozen=True)
class Observation:
    """One look at a generation. All times are seconds up to now."""

    agents: tuple[AgentStatus, ...]
    state: GangState | None
    """What agent 0 last wrote."""
    since_creation: float
    since_news: float
    """Since agent 0 wrote anything, or since the creation."""
    since_first_exit: float | None = None
    """Since the first agent was seen to have ended."""
    since_node_lost: float | None = None
    """Since the first machine that does not answer now stopped answering."""
    queue: QueueStanding | None = None
    """With a queue: what it says. `since_creation` counts from the admission then."""
    since_queued: float = 0.0
    """With a queue: since this generation began to wait, while it waits."""


@dataclass(frozen=True)
class Stopping:
    """The gang was asked to stop."""

    cause: StopCause
    seconds: float
    """Since then."""
    missing: str = ""
    """With START_DEADLINE: what was not there; with what a queue did, its words."""


@dataclass(frozen=True)
class Wait:
    """Nothing to do."""


@dataclass(frozen=True)
class StopGang:
    """Ask the agents to stop gracefully."""

    cause: StopCause


@dataclass(frozen=True)
class RemoveGang:
    """End everything that is left, at once."""

    cause: StopCause


Action = Wait | StopGang | RemoveGang | Decision


def next_action(
    seen: Observation,
    *,
    limits: GangLimits,
    budget: Budget,
    intent: StopCause | None,
    stopping: Stopping | None,
    flush_seconds: float,
    survives_launcher: bool = False,
    lost_node: LostNodeRule | None = None,
    queue_seconds: float = 0.0,
) -> Action:
    """The one thing to do now. `intent` is why a SIGTERM came, `stopping` what is under way already.

    `queue_seconds`: how long this generation may wait in its queue.
    """
    if seen.agents and all(agent.has_exited for agent in seen.agents):
        return _decide(seen, stopping, budget)
    if intent is StopCause.INTERRUPTED and survives_launcher:
        return left_alone()
    if lost_node and seen.since_node_lost is not None and _only_lost_nodes_are_left(seen):
        action = _about_lost_nodes(seen, seen.since_node_lost, limits, stopping, lost_node, budget)
        if action is not None:
            return action
    if stopping:
        if stopping.seconds >= stop_allowance(stopping.cause, limits):
            return RemoveGang(stopping.cause)
        if intent and stopping.cause not in _INTENTS:
            return StopGang(intent)  # whatever was going on, now it is a stop
        return Wait()
    if intent:
        return StopGang(intent)
    if seen.queue and seen.queue.phase is not QueuePhase.ADMITTED:
        return _about_the_queue(seen.queue, seen.since_queued, queue_seconds)
    if _is_left_behind(seen, limits):
        return RemoveGang(StopCause.LEFT_BEHIND)
    if not has_started(seen.state) or _gave_up_waiting(seen):
        is_late = seen.since_creation >= limits.start_seconds + START_SLACK_SECONDS
        return StopGang(StopCause.START_DEADLINE) if is_late else Wait()
    if seen.since_news >= SILENT_FLUSHES * flush_seconds and not _has_exited(seen, node_rank=0):
        return RemoveGang(StopCause.SILENT)
    return Wait()


def _gave_up_waiting(seen: Observation) -> bool:
    """Agents end their wait for a program whose image does not come at about the time we do; their pods stay."""
    state = seen.state
    is_given_up = state is not None and state.state.is_final and not state.attempts
    return is_given_up and any(agent.phase is AgentPhase.PENDING for agent in seen.agents)


def _decide(seen: Observation, stopping: Stopping | None, budget: Budget) -> Decision:
    cause, missing = (stopping.cause, stopping.missing) if stopping else (None, "")
    if cause not in _INTENTS and seen.queue and seen.queue.phase is QueuePhase.TAKEN:
        cause, missing = cause_of_taking(seen.queue), seen.queue.message
    return decide(Ending(seen.agents, seen.state, cause, missing), budget)


def cause_of_taking(queue: QueueStanding) -> StopCause:
    """Why a gang goes whose quota was taken back: to make room, or because it did not use it."""
    return StopCause.PREEMPTED if queue.is_free else StopCause.EVICTED


def _about_the_queue(queue: QueueStanding, seconds: float, limit: float) -> Action:
    if queue.phase is QueuePhase.TAKEN:
        return StopGang(cause_of_taking(queue))
    if queue.phase is QueuePhase.REFUSED:
        return StopGang(StopCause.QUEUE_REFUSED)
    return StopGang(StopCause.QUEUE_DEADLINE) if seconds >= limit else Wait()


def _only_lost_nodes_are_left(seen: Observation) -> bool:
    return all(agent.has_exited or agent.node_lost for agent in seen.agents)


def _about_lost_nodes(
    seen: Observation, seconds: float, limits: GangLimits, stopping: Stopping | None, rule: LostNodeRule, budget: Budget
) -> Action | None:  # fmt: skip
    """Of what is left nobody can say whether it still runs. None: as always, so in the end the gang is removed, and
    its next generation waits until these pods are gone: the node says so, or the janitor does not ask it.
    """
    is_over = rule.policy != "wait" and seconds >= rule.after_seconds
    if stopping and stopping.cause in (*_INTENTS, StopCause.START_DEADLINE):
        # No generation follows, so there is nothing to wait for.
        return _decide(seen, stopping, budget) if stopping.seconds >= stop_allowance(stopping.cause, limits) else None
    if rule.policy == "fail" and is_over:
        return node_not_answering(seen.agents, seconds)
    if stopping is None and is_over and seen.since_first_exit is None:
        return RemoveGang(StopCause.NODE_LOST)
    return None


def stop_allowance(cause: StopCause, limits: GangLimits) -> float:
    """Seconds between the request to stop and the removal by force."""
    match cause:
        case StopCause.INTERRUPTED:
            return min(INTERRUPT_SECONDS, limits.stop_seconds) + WIND_DOWN_SECONDS
        case StopCause.REQUESTED | StopCause.DEADLINE | StopCause.PREEMPTED | StopCause.EVICTED:
            return limits.stop_seconds + WIND_DOWN_SECONDS
        case _:
            return EVIDENCE_SECONDS


_INTENTS = (StopCause.REQUESTED, StopCause.DEADLINE, StopCause.INTERRUPTED)


def _is_left_behind(seen: Observation, limits: GangLimits) -> bool:
    if seen.since_first_exit is None:
        return False
    has_work_to_save = seen.state is not None and bool(seen.state.attempts) and not lost_agent(seen.agents)
    patience = limits.stop_seconds + LEAVE_SECONDS if has_work_to_save else FOLLOW_SECONDS
    return seen.since_first_exit >= patience


def _has_exited(seen: Observation, *, node_rank: int) -> bool:
    return any(agent.node_rank == node_rank and agent.phase is AgentPhase.EXITED for agent in seen.agents)
