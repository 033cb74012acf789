"""Decides what follows when every agent of a generation has ended: another generation, or the run's end.

Agent 0 coordinates the gang, so its verdict counts; without one (it died, or lost its peers) another agent's verdict
about its node or the environment counts; without any the gang was lost, which a new generation may mend.

Long because what counts before what is easier to follow in one place.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from components.contracts.gang import FailureKind, GangState
from components.contracts.lifecycle import RunState
from components.contracts.units import format_duration
from components.errors import ExitCode
from components.launch.backend import NODE_LOST, POD_DELETED, AgentStatus
from components.launch.first_failure import describe_failure, first_failure, lost_agent
from components.launch.queue import PREEMPTED

_OF_THE_GANG = (
    ExitCode.BAD_INPUT, ExitCode.BUG, ExitCode.VERIFICATION_FAILED, ExitCode.ENVIRONMENT_UNFIT, ExitCode.NODE_UNFIT,
    ExitCode.NO_PROGRESS, ExitCode.NODE_FAULT, ExitCode.WORKER_FAILED, ExitCode.HANG, ExitCode.STOPPED,
    ExitCode.PREEMPTED, ExitCode.TRANSIENT,
)  # fmt: skip
"""Verdicts that end the gang as a whole, the most telling first."""

_OF_ONE_AGENT = (ExitCode.BAD_INPUT, ExitCode.BUG, ExitCode.ENVIRONMENT_UNFIT, ExitCode.NODE_UNFIT, ExitCode.TRANSIENT)
"""Verdicts that count from any agent, because they explain why it left."""


class StopCause(StrEnum):
    """Why the launcher took the gang down."""

    REQUESTED = "StopRequested"
    """Somebody asked for it."""
    DEADLINE = "StageDeadline"
    """The stage's own deadline passed."""
    INTERRUPTED = "Interrupted"
    """SIGTERM without a stated intent."""
    START_DEADLINE = "StartDeadline"
    """Not every node was running within `limits.start`."""
    SILENT = "AgentSilent"
    """Agent 0 runs and says nothing any more."""
    LEFT_BEHIND = "AgentLost"
    """An agent ended and the others did not follow."""
    NODE_LOST = "NodeLost"
    """A machine does not answer any more, and nobody else is left."""
    QUEUE_DEADLINE = "QueueDeadline"
    """The queue did not admit it within `limits.queue`."""
    QUEUE_REFUSED = "QueueRefused"
    """The queue will never admit it."""
    PREEMPTED = "Preempted"
    """The queue took its quota back to make room."""
    EVICTED = "Evicted"
    """The queue took its quota back because the gang did not use it."""


@dataclass(frozen=True)
class Budget:
    """What the run may still spend."""

    restarts_used: int
    max_restarts: int
    replaces_nodes: bool
    """Whether a new generation can avoid a node."""

    @property
    def allows_restart(self) -> bool:
        return self.restarts_used < self.max_restarts

    def __str__(self) -> str:
        return f"{self.restarts_used} of {self.max_restarts} restarts used"


@dataclass(frozen=True)
class Ending:
    """How a generation ended."""

    agents: tuple[AgentStatus, ...]
    state: GangState | None
    cause: StopCause | None = None
    """Set when the launcher took it down."""
    missing: str = ""
    """With START_DEADLINE: what was not there; with what a queue did, its words."""


@dataclass(frozen=True)
class Finish:
    """The run's gang is over."""

    exit_code: ExitCode
    reason: str
    seen: str
    fix: str = ""


@dataclass(frozen=True)
class NewGeneration:
    """Another generation follows."""

    reason: str
    seen: str
    charged: bool
    excluded_nodes: tuple[int, ...] = ()
    """Node ranks whose machines the next generation avoids."""
    exit_code: ExitCode = ExitCode.PEER_LOST
    """What the generation that ended would have been reported with."""


Decision = Finish | NewGeneration


def decide(ending: Ending, budget: Budget) -> Decision:
    """What follows `ending`, given what the run may still spend."""
    if _succeeded(ending.agents):
        return Finish(ExitCode.OK, "Succeeded", ending.state.message if ending.state else "")
    match ending.cause:
        case StopCause.REQUESTED | StopCause.DEADLINE | StopCause.INTERRUPTED:
            return without_gang(ending.cause)
        case StopCause.START_DEADLINE:
            return Finish(
                ExitCode.STOPPED, ending.cause, ending.missing or "not every node was running in time",
                _FIXES_BY_REASON[StopCause.START_DEADLINE],
            )  # fmt: skip
        case StopCause.QUEUE_DEADLINE | StopCause.QUEUE_REFUSED:
            return never_admitted(ending.cause, ending.missing)
        case StopCause.PREEMPTED:
            return NewGeneration(PREEMPTED, ending.missing, charged=False, exit_code=ExitCode.PREEMPTED)
        case StopCause.EVICTED:
            return _lost(StopCause.EVICTED, ending.missing, budget)
        case StopCause.SILENT:
            return _lost(StopCause.SILENT, "agent 0 ran on but reported nothing any more", budget)
        case _:
            return _judge(ending, budget)


def never_admitted(cause: StopCause, seen: str) -> Finish:
    """A queue did not let the gang in."""
    if cause is StopCause.QUEUE_REFUSED:
        return Finish(ExitCode.ENVIRONMENT_UNFIT, cause.value, seen, "ask for less, or whoever runs the queue")
    fix = f"raise launch.limits.queue, have the quota raised, or use a higher queue.priority; {_CONTINUE}"
    return Finish(ExitCode.STOPPED, cause.value, seen, fix)


def left_alone() -> Finish:
    """The launcher goes without a stop request, and the gang trains on."""
    return Finish(
        ExitCode.INTERRUPTED, StopCause.INTERRUPTED.value, "SIGTERM without a stop request; the gang trains on",
        "the next attempt takes it over",
    )  # fmt: skip


def node_not_answering(agents: Sequence[AgentStatus], seconds: float) -> Finish:
    """`lost_node: fail`."""
    names = ", ".join(f"node {agent.node_rank} (on {agent.where})" for agent in agents if agent.node_lost)
    return Finish(
        ExitCode.NODE_FAULT, NODE_LOST, f"{names}: its machine has not answered for {format_duration(round(seconds))}",
        _FIXES[ExitCode.NODE_FAULT],
    )  # fmt: skip


def without_gang(cause: StopCause) -> Finish:
    """The launcher was told to go and no gang of this run is left, or none was started."""
    match cause:
        case StopCause.REQUESTED:
            return Finish(ExitCode.STOPPED, cause.value, "a stop was requested; the gang is stopped", _CONTINUE)
        case StopCause.DEADLINE:
            return Finish(
                ExitCode.STOPPED, cause.value, "the launch stage's deadline passed; the gang is stopped",
                f"raise launch.timeout; {_CONTINUE}",
            )  # fmt: skip
        case _:
            return Finish(
                ExitCode.INTERRUPTED, cause.value, "SIGTERM without a stop request; the gang is stopped",
                "the next attempt continues from the newest checkpoint",
            )  # fmt: skip


_CONTINUE = "`resume` continues the run, from its newest checkpoint where there is one"


def _succeeded(agents: Sequence[AgentStatus]) -> bool:
    """Agent 0 says so after it has everybody's receipts; how its peers leave then no longer matters."""
    return any(agent.node_rank == 0 and agent.exit_code == ExitCode.OK for agent in agents)


def _judge(ending: Ending, budget: Budget) -> Decision:
    taken = _taken_away(ending, budget)
    if taken is not None:
        return taken
    verdict = _verdict(ending)
    if verdict is None:
        return _gang_lost(ending, budget)
    agent, code = verdict
    if code is ExitCode.NODE_UNFIT:
        return _node_unfit(agent, ending, budget)
    state = ending.state if ending.state and ending.state.exit_code == code else None
    reason = (state.reason if state else "") or _REASONS[code]
    return Finish(code, reason, _seen(agent, code, state, budget), _FIXES_BY_REASON.get(reason, _FIXES[code]))


def _taken_away(ending: Ending, budget: Budget) -> Decision | None:
    """What follows when the gang did not fail, but lost a node, a pod, or the program's image cannot hold it."""
    for agent in ending.agents:
        if agent.is_unstartable and not agent.ended_by_us:
            return Finish(
                ExitCode.ENVIRONMENT_UNFIT, "ImageUnfit",
                f"the program's container of node {agent.node_rank} cannot run the guard: it {agent.ending()}",
                "use an image that has python3 >= 3.8 on its PATH",
            )  # fmt: skip
    gone = [agent for agent in ending.agents if agent.disruption and not agent.ended_by_us]
    if not gone or not _left_for_lack_of_peers(ending):
        return None
    lost = [agent for agent in gone if agent.disruption == NODE_LOST]
    # Times have seconds only, so who went first is not known: a reason of the cluster's counts more.
    taken = [agent for agent in gone if agent.disruption != POD_DELETED]
    first = (lost or taken or gone)[0]
    seen = f"node {first.node_rank} {f'(on {first.where}) ' if first.where else ''}"
    if lost:
        return _lost_node(lost, f"{seen}was lost: its machine does not answer any more", budget)
    if first.disruption == POD_DELETED:
        return _lost(POD_DELETED, f"{seen}went: somebody deleted its pod", budget)
    return NewGeneration(PREEMPTED, f"{seen}was taken away by the cluster: {first.disruption}", charged=False)


def _left_for_lack_of_peers(ending: Ending) -> bool:
    """Whether the gang's end says nothing by itself: it was told to go, lost somebody, or left no word."""
    verdict = _verdict(ending)
    return verdict is None or (verdict[1] is ExitCode.STOPPED and _was_told_to_stop(ending))


def _was_told_to_stop(ending: Ending) -> bool:
    """Whether a gang that says Stopped means a SIGTERM, not a limit of its own."""
    state = ending.state
    return state is None or state.exit_code != ExitCode.STOPPED or state.reason == StopCause.REQUESTED


def _lost_node(lost: Sequence[AgentStatus], seen: str, budget: Budget) -> Decision:
    if budget.allows_restart:
        ranks = tuple(agent.node_rank for agent in lost)
        return NewGeneration(NODE_LOST, seen, charged=True, excluded_nodes=ranks)
    return Finish(ExitCode.NODE_FAULT, NODE_LOST, f"{seen}; {budget}", _FIXES[ExitCode.NODE_FAULT])


def _seen(agent: AgentStatus, code: ExitCode, state: GangState | None, budget: Budget) -> str:
    """The rank that failed first; for everything else agent 0's own words, which name it where there is one."""
    failure = first_failure(state)
    if failure is not None and code in (ExitCode.WORKER_FAILED, ExitCode.HANG, ExitCode.NODE_FAULT):
        return f"{describe_failure(failure)}; {budget}"
    # An error that became a verdict is told with its reason in front, and so is a Finish.
    return (state.message.removeprefix(f"{state.reason}: ") if state else "") or f"the agent {agent.ending()}"


def _verdict(ending: Ending) -> tuple[AgentStatus, ExitCode] | None:
    """The agent whose exit code speaks for the gang, and that code."""
    own = [
        agent
        for agent in ending.agents
        if not agent.ended_by_us
        and not (agent.followed and agent.exit_code == ExitCode.STOPPED and _was_told_to_stop(ending))
    ]
    first = [agent for agent in own if agent.node_rank == 0]
    for agents, codes in ((first, _OF_THE_GANG), (own, _OF_ONE_AGENT)):
        for code in codes:
            for agent in agents:
                if agent.exit_code == code:
                    return agent, code
    return None


def _gang_lost(ending: Ending, budget: Budget) -> Decision:
    gone = lost_agent(ending.agents)
    failure = first_failure(ending.state)
    if failure and failure.kind in (FailureKind.AGENT_LOST, FailureKind.GUARD_LOST):
        reason, seen = failure.kind.value, describe_failure(failure)
        if gone and (gone.signal or gone.fate):
            seen = f"the agent of node {gone.node_rank} {gone.ending()}"
    elif gone:
        reason, seen = FailureKind.AGENT_LOST.value, f"the agent of node {gone.node_rank} {gone.ending()}"
    else:
        reason, seen = FailureKind.AGENT_LOST.value, "every agent ended without a verdict"
    return _lost(reason, seen, budget)


def _lost(reason: str, seen: str, budget: Budget) -> Decision:
    if budget.allows_restart:
        return NewGeneration(reason, seen, charged=True)
    return Finish(ExitCode.PEER_LOST, reason, f"{seen}; {budget}", _FIXES[ExitCode.PEER_LOST])


def _node_unfit(agent: AgentStatus, ending: Ending, budget: Budget) -> Decision:
    message = ending.state.message if ending.state and ending.state.exit_code else ""
    seen = message or f"node {agent.node_rank} is unfit: its agent {agent.ending()}"
    if not budget.replaces_nodes:
        reason = (ending.state.reason if ending.state and message else "") or "NodeUnfit"
        return Finish(ExitCode.ENVIRONMENT_UNFIT, reason, seen, "all nodes are this machine: there is no other to try")
    if budget.allows_restart:
        unfit = tuple(
            each.node_rank for each in ending.agents if each.exit_code == ExitCode.NODE_UNFIT and not each.ended_by_us
        )
        return NewGeneration("NodeUnfit", seen, charged=True, excluded_nodes=unfit, exit_code=ExitCode.NODE_UNFIT)
    return Finish(ExitCode.NODE_FAULT, "NodeUnfit", f"{seen}; {budget}", _FIXES[ExitCode.NODE_FAULT])


def has_started(state: GangState | None) -> bool:
    """Whether all ranks of this generation were running once."""
    return state is not None and state.state not in (RunState.SUBMITTED, RunState.QUEUED, RunState.STARTING)


_REASONS = {
    ExitCode.BUG: "AgentBug",
    ExitCode.TRANSIENT: "StorageNotAnswering",
    ExitCode.BAD_INPUT: "BadInput",
    ExitCode.ENVIRONMENT_UNFIT: "EnvironmentUnfit",
    ExitCode.STOPPED: "Stopped",
    ExitCode.WORKER_FAILED: "WorkerFailed",
    ExitCode.HANG: "Hang",
    ExitCode.NODE_FAULT: "NodeFault",
    ExitCode.NO_PROGRESS: "NoProgress",
    ExitCode.PREEMPTED: "Preempted",
    ExitCode.VERIFICATION_FAILED: "VerificationFailed",
}

_TAKEN_OVER = "another run of this experiment has taken over: wait for it, stop it, or use another model_version"

_FIXES_BY_REASON: Mapping[str, str] = {
    "StartFailed": "correct launch.command: a program on PATH or a path relative to launch.workdir",
    "RunDeadline": "raise launch.limits.run",
    StopCause.START_DEADLINE: "mend what is missing, or raise launch.limits.start",
    "Fenced": _TAKEN_OVER,
    "ClaimLost": _TAKEN_OVER,
    "ChecksFailed": "",  # the message carries each check's remedy
}

_FIXES = {
    ExitCode.BUG: "this is a fault of Argosy: keep the agent's log and report it",
    ExitCode.TRANSIENT: "the stage is tried again",
    ExitCode.BAD_INPUT: "correct the run description and submit again",
    ExitCode.ENVIRONMENT_UNFIT: "mend that, then resume",
    ExitCode.STOPPED: _CONTINUE,
    ExitCode.WORKER_FAILED: "read that rank's log and mend the program",
    ExitCode.HANG: "see in the logs where the ranks wait; slow steps need a longer launch.limits.no_progress",
    ExitCode.PEER_LOST: "find out what ended it: memory, an administrator, the machine",
    ExitCode.NODE_FAULT: "take the node out of service",
    ExitCode.NO_PROGRESS: "restarting does not help: look at what that step does",
    ExitCode.PREEMPTED: _CONTINUE,
    ExitCode.VERIFICATION_FAILED: "`checkpoints list` shows what there is",
}
