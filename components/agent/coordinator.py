"""The gang's state machine: events in, actions out; no clock, no I/O. Agent 0 runs it.

    joining -> checking -> fetching -> preparing -> starting -> running -> ending -> draining -> over
                                           ^                                            |
                                           +------------- restart in place -------------+

fetching: every node gets the data set; ending: the ranks are being killed on every node; draining: what is READY
becomes checkpoints, verified, before the next term begins or the gang leaves.

Long because a state machine is checked by reading it in one place.
"""

from enum import StrEnum

from components.agent.attempt import Attempt
from components.agent.events import (
    Action,
    CommitFailed,
    Committed,
    Event,
    Heard,
    Lost,
    Moment,
    Prepare,
    Prepared,
    PrepareFailed,
    RetainEnded,
    Tell,
    Tick,
    VerifyEnded,
)  # fmt: skip
from components.agent.messages import (
    Check,
    Checked,
    Down,
    Drained,
    Fetch,
    Fetched,
    Finish,
    GuardLost,
    Joined,
    Kill,
    Peer,
    Progressed,
    Published,
    PublishFailed,
    RankExited,
    Start,
    Started,
    Stop,
    Terminated,
    Trouble,
)  # fmt: skip
from components.agent.restart_policy import History, Restart, after_failure
from components.agent.step_commits import StepCommits
from components.agent.step_curve import StepCurve
from components.agent.verdict import Stopping, Verdict, checks_verdict, list_nodes
from components.contracts.gang import FailureKind, GangSpec
from components.contracts.lifecycle import RunState
from components.contracts.units import format_duration
from components.errors import ExitCode

DOWN_SECONDS = 15.0
"""For every node to report that its ranks are gone; SIGKILL takes milliseconds, so whoever needs longer is stuck."""

LEAVE_SECONDS = 5.0
"""For what is READY to become a checkpoint when the gang cannot go on: the launcher waits no longer for us."""


class Phase(StrEnum):
    JOINING = "joining"
    CHECKING = "checking"
    FETCHING = "fetching"
    PREPARING = "preparing"
    STARTING = "starting"
    RUNNING = "running"
    ENDING = "ending"
    DRAINING = "draining"
    OVER = "over"


class Coordinator:
    """One generation of a gang. `handle` every event; `verdict` is set once it is over."""

    def __init__(self, spec: GangSpec, *, now: Moment) -> None:
        self.spec, self.created_at, self.phase = spec, now, Phase.JOINING
        self.phase_at = now
        self.joined: dict[int, Joined] = {}
        self.checked: dict[int, Checked] = {}
        self.fetched: set[int] = set()
        self.lost: set[int] = set()
        """Nodes from which nothing more will come."""
        self.attempts: list[Attempt] = []
        self.curve = StepCurve()
        self.total_steps: int | None = None
        self.restarts_used = spec.restarts_used
        self.stopping: Stopping | None = None
        self.verdict: Verdict | None = None
        self.warnings: list[str] = []
        self._reports_steps = False
        self._pending: Verdict | None = None
        """What the gang will end with whatever its ranks do: a peer is lost, a newer term has begun."""
        self._num_port_retries = 0
        self._is_patient = False
        """Ranks may still end by themselves, and one of them be the cause."""
        self._charged = spec.begin_charged
        self._start_clock_at = now.seconds
        self._drain_until: float | None = None
        writers = spec.checkpoint.writing_nodes(spec.num_nodes) if spec.checkpoint else ()
        self.commits = StepCommits(writers=writers, curve=self.curve)

    @property
    def attempt(self) -> Attempt | None:
        return self.attempts[-1] if self.attempts else None

    @property
    def is_over(self) -> bool:
        return self.phase is Phase.OVER

    def run_seconds_used(self, now: Moment) -> float:
        """Running time of the whole run, earlier generations included."""
        return self.spec.run_seconds_used + sum(attempt.running_seconds(now) for attempt in self.attempts)

    def handle(self, event: Event, now: Moment) -> list[Action]:
        """What to do about `event`. After the verdict: nothing."""
        if self.is_over:
            return []
        match event:
            case Heard(node_rank, message):
                return self._hear(node_rank, message, now)
            case Lost(node_rank, why):
                self.lost.add(node_rank)
                text = f"node {node_rank}: its agent is gone ({why})"
                return self._lose_node(FailureKind.AGENT_LOST, node_rank, text, now)
            case Prepared():
                return self._start(event, now)
            case PrepareFailed(trouble):
                return self._finish(Verdict.of_trouble(trouble), now)
            case Committed(term, step):
                return self.commits.on_committed(term=term, step=step, now=now) + self._check_drained(now)
            case CommitFailed():
                return self._on_commit_failed(event, now)
            case VerifyEnded():
                return self.commits.on_verified(event, now) + self._check_drained(now)
            case RetainEnded(retired):
                return self.commits.on_retained(retired=retired, now=now) + self._check_drained(now)
            case Tick():
                return self._tick(now)

    def take_warnings(self) -> list[str]:
        """What people should know, once."""
        warnings, self.warnings = self.warnings, []
        return warnings

    # --- what nodes say

    def _hear(self, node_rank: int, message: object, now: Moment) -> list[Action]:
        match message:
            case Joined():
                self.joined[node_rank] = message
                return self._check(now) if len(self.joined) == self.spec.num_nodes else []
            case Checked():
                self.checked[node_rank] = message
                return self._judge_checks(now) if len(self.checked) == self.spec.num_nodes else []
            case Fetched() if self.phase is Phase.FETCHING:
                return self._on_fetched(node_rank, message, now)
            case Fetched(failure=Trouble() as trouble) if self.phase is Phase.STARTING:
                self._pending = self._pending or Verdict.of_node(trouble, node_rank=node_rank)
                return self._end(now)
            case GuardLost(message=text):
                return self._lose_node(FailureKind.GUARD_LOST, node_rank, f"node {node_rank}: {text}", now)
            case Terminated():
                return self._stop(Stopping("StopRequested", "a stop was requested", now.seconds), now)
            case _:
                return self._hear_of_attempt(node_rank, message, now)

    def _hear_of_attempt(self, node_rank: int, message: object, now: Moment) -> list[Action]:
        attempt = self.attempt
        if attempt is None or getattr(message, "attempt", attempt.number) != attempt.number:
            return []  # about an attempt that is over
        match message:
            case Started():
                attempt.on_started(message)
                attempt.started.add(node_rank)
                if self.phase is Phase.STARTING and len(attempt.started) == self.spec.num_nodes:
                    self._enter(Phase.RUNNING, now)
            case RankExited():
                attempt.on_exit(node_rank, message)
                return self._on_exit(attempt, now)
            case Progressed():
                self._on_progress(attempt, node_rank, message, now)
            case Down():
                attempt.down.add(node_rank)
                return self._check_down(now)
            case Drained():
                attempt.drained.add(node_rank)
                return self._check_drained(now)
            case Published(term=term, step=step) if term == attempt.term:
                source = attempt.prepared.source
                return self.commits.on_published(node_rank=node_rank, term=term, step=step, parent=source, now=now)
            case PublishFailed(term=term, step=step, trouble=trouble) if term == attempt.term:
                self.warnings.append(f"step {step} is not saved: {trouble.message}")
                return self.commits.on_publish_failed(
                    node_rank=node_rank, term=term, step=step, trouble=trouble, now=now
                )
        return []

    def _on_exit(self, attempt: Attempt, now: Moment) -> list[Action]:
        if self.phase is Phase.ENDING and self._is_patient and attempt.patience_seconds == 0:
            self._is_patient = False
            return [Tell(None, Kill(attempt=attempt.number))]
        if self.phase not in (Phase.STARTING, Phase.RUNNING):
            return []
        if self.stopping is None and attempt.has_failure:
            attempt.ended_by_failure = True
            return self._end(now, patience_seconds=attempt.patience_seconds)
        return self._end(now) if attempt.all_exited else []

    def _on_progress(self, attempt: Attempt, node_rank: int, message: Progressed, now: Moment) -> None:
        attempt.on_progress(node_rank, message, now)
        self._reports_steps |= message.reports_steps
        self.total_steps = message.total_steps or self.total_steps
        for view in message.views:
            self.curve.add(view, message.metrics.get(view.step, {}))

    # --- from join to start

    def _check(self, now: Moment) -> list[Action]:
        self._enter(Phase.CHECKING, now)
        peers = [
            Peer(node_rank=rank, host=joined.probe_host, port=joined.probe_port) for rank, joined in self.joined.items()
        ]
        return [Tell(None, Check(peers=tuple(sorted(peers, key=lambda peer: peer.node_rank))))]

    def _judge_checks(self, now: Moment) -> list[Action]:
        verdict = checks_verdict({rank: checked.results for rank, checked in self.checked.items()})
        if verdict is not None:
            return self._finish(verdict, now)
        self._enter(Phase.FETCHING, now)
        return [Tell(None, Fetch())]

    def _on_fetched(self, node_rank: int, message: Fetched, now: Moment) -> list[Action]:
        if message.failure is not None:
            return self._finish(Verdict.of_node(message.failure, node_rank=node_rank), now)
        self.fetched.add(node_rank)
        if len(self.fetched) < self.spec.num_nodes:
            return []
        return self._prepare(self.spec.begin_reason, now, charged=self.spec.begin_charged)

    def _prepare(self, reason: str, now: Moment, *, charged: bool) -> list[Action]:
        self._enter(Phase.PREPARING, now)
        self._charged = charged
        return [Prepare(attempt=len(self.attempts), reason=reason, charged=charged)]

    def _start(self, prepared: Prepared, now: Moment) -> list[Action]:
        self.restarts_used = prepared.restarts_used
        self.attempts.append(Attempt(self.spec, prepared, charged=self._charged, now=now))
        self._enter(Phase.STARTING, now)
        start = Start(
            attempt=prepared.attempt, term=prepared.term, master_addr=self.spec.coordinator_host,
            master_port=prepared.master_port, resume_folder=prepared.folder,
        )  # fmt: skip
        return [Tell(None, start)]

    # --- endings

    def _stop(self, stopping: Stopping, now: Moment) -> list[Action]:
        if self.stopping is not None:
            return []
        self.stopping = stopping
        until = now.seconds + self.spec.limits.stop_seconds
        if self.phase is Phase.RUNNING:
            return [Tell(None, Stop())]
        if self.phase is Phase.STARTING:
            return self._end(now)  # nothing to save yet
        if self.phase in (Phase.ENDING, Phase.DRAINING):
            self._limit_draining(until)
            return []
        return self._finish(self.stopping.verdict(), now)

    def _end(self, now: Moment, *, patience_seconds: float = 0) -> list[Action]:
        """Take the ranks down on every node; those that have ended leave no processes behind either."""
        attempt = self.attempt
        assert attempt is not None
        self._enter(Phase.ENDING, now)
        self._is_patient = patience_seconds > 0
        kill = Kill(attempt=attempt.number, patience_seconds=patience_seconds)
        return [Tell(None, kill), *self._check_down(now)]

    def _check_down(self, now: Moment) -> list[Action]:
        attempt = self.attempt
        if self.phase is not Phase.ENDING or attempt is None or not self._all_nodes(attempt.down):
            return []
        attempt.ended_at = now
        attempt.failure = attempt.failure or attempt.attribute()
        if self.stopping is not None:
            attempt.outcome = "stopped"
            self._limit_draining(self.stopping.since + self.spec.limits.stop_seconds)
            if self.stopping.kind is None and not attempt.ended_by_failure:
                attempt.failure = None  # how ranks end when they are told to is nobody's failure
        elif attempt.failure is None and attempt.all_succeeded and self._pending is None:
            attempt.outcome = "succeeded"
        else:
            attempt.outcome = "failed"
            self._limit_draining(now.seconds + (LEAVE_SECONDS if self._pending else self.spec.limits.start_seconds))
        self._enter(Phase.DRAINING, now)
        return self._check_drained(now)

    def _limit_draining(self, until: float) -> None:
        self._drain_until = until if self._drain_until is None else min(until, self._drain_until)

    def _check_drained(self, now: Moment) -> list[Action]:
        attempt = self.attempt
        if self.phase is not Phase.DRAINING or attempt is None:
            return []
        if self._is_late(now):
            return self._conclude(attempt, now)
        if not self._all_nodes(attempt.drained):
            return []
        abandoned = self.commits.abandon_incomplete(now)
        is_tidy = not self.commits.is_retaining or attempt.outcome != "succeeded"
        return abandoned + (self._conclude(attempt, now) if self.commits.is_idle and is_tidy else [])

    def _is_late(self, now: Moment) -> bool:
        return self._drain_until is not None and now.seconds >= self._drain_until

    def _conclude(self, attempt: Attempt, now: Moment) -> list[Action]:
        """The attempt is over and drained, or out of time: restart or leave."""
        self._drain_until = None
        if self._pending is not None:
            return self._finish(self._pending, now)
        if attempt.outcome == "succeeded":
            if self.commits.trouble is not None:
                return self._finish(Verdict.of_unsaved(self.commits.trouble), now)
            return self._finish(Verdict(ExitCode.OK, RunState.SUCCEEDED, "Succeeded", ""), now)
        if self.stopping is not None:
            return self._finish(self.stopping.verdict(), now)
        failure = attempt.failure
        assert failure is not None
        history = History(
            restarts_used=self.restarts_used, max_restarts=self.spec.max_restarts,
            num_port_retries=self._num_port_retries, last_steps=[other.last_step for other in self.attempts],
        )  # fmt: skip
        decision = after_failure(failure, history)
        if not isinstance(decision, Restart):
            return self._finish(Verdict(decision.exit_code, RunState.FAILED, decision.reason, decision.message), now)
        self._start_clock_at = now.seconds
        self._num_port_retries = 0 if decision.charged else self._num_port_retries + 1
        return self._prepare(decision.reason, now, charged=decision.charged)

    def _lose_node(self, kind: FailureKind, node_rank: int, text: str, now: Moment) -> list[Action]:
        attempt = self.attempt
        if attempt is not None:
            attempt.on_node_gone(node_rank)
            if self.phase is Phase.DRAINING and attempt.outcome == "succeeded" and node_rank in attempt.drained:
                return []  # it had done its part
        if self.stopping is None and self._pending is None:
            self._pending = Verdict(ExitCode.PEER_LOST, RunState.FAILED, kind.value, text)
        if attempt is None or self.phase is Phase.PREPARING:
            return self._finish(self.stopping.verdict() if self.stopping else self._pending_verdict(), now)
        if self.phase in (Phase.STARTING, Phase.RUNNING):
            if self.stopping is None:
                attempt.fail(kind, text, now, node_rank=node_rank)
                return self._end(now)
            return self._end(now) if attempt.all_exited else []
        if self.phase is Phase.DRAINING:
            self._limit_draining(now.seconds + LEAVE_SECONDS)
        return self._check_down(now) + self._check_drained(now)

    def _on_commit_failed(self, event: CommitFailed, now: Moment) -> list[Action]:
        attempt = self.attempt
        self.warnings.append(f"step {event.step} is not committed: {event.trouble.message}")
        actions = self.commits.on_commit_failed(term=event.term, step=event.step, trouble=event.trouble, now=now)
        if event.is_fenced and attempt is not None and attempt.term == event.term:
            # Whoever began the newer term owns the experiment: nothing of ours counts any more.
            self._pending = Verdict.of_trouble(event.trouble)
            self._limit_draining(now.seconds)
            if self.phase in (Phase.STARTING, Phase.RUNNING):
                return actions + self._end(now)
        return actions + self._check_drained(now)

    def _finish(self, verdict: Verdict, now: Moment) -> list[Action]:
        self.verdict = verdict
        self._enter(Phase.OVER, now)
        return [
            Tell(rank, Finish(exit_code=verdict.exit_code_of(rank), reason=verdict.reason, message=verdict.message))
            for rank in range(self.spec.num_nodes)
        ]

    # --- limits

    def _tick(self, now: Moment) -> list[Action]:
        attempt = self.attempt
        if self.phase in (Phase.JOINING, Phase.CHECKING, Phase.FETCHING, Phase.PREPARING, Phase.STARTING):
            is_late = now.seconds - self._start_clock_at >= self.spec.limits.start_seconds
            return self._start_deadline(now) if is_late else []
        assert attempt is not None
        if self.phase is Phase.RUNNING:
            return self._tick_running(attempt, now)
        if self.phase is Phase.ENDING and now.seconds - self.phase_at.seconds >= DOWN_SECONDS:
            stuck = [rank for rank in range(self.spec.num_nodes) if rank not in attempt.down and rank not in self.lost]
            text = f"{list_nodes(stuck)}: processes survive SIGKILL for {format_duration(DOWN_SECONDS)}"
            self._pending = self._pending or Verdict(ExitCode.PEER_LOST, RunState.FAILED, "RanksStuck", text)
            self.lost.update(stuck)
            return self._check_down(now)
        return self._check_drained(now)

    def _tick_running(self, attempt: Attempt, now: Moment) -> list[Action]:
        limits = self.spec.limits
        if self.stopping is not None:
            return self._end(now) if now.seconds - self.stopping.since >= limits.stop_seconds else []
        if self.run_seconds_used(now) >= limits.run_seconds:
            text = f"the ranks have been running for {format_duration(limits.run_seconds)}, which is launch.limits.run"
            kind = FailureKind.RUN_DEADLINE
            attempt.fail(kind, text, now)
            return self._stop(Stopping(kind.value, text, now.seconds, kind), now)
        limit = limits.no_progress_seconds
        if self._reports_steps and now.seconds - attempt.progress_at.seconds >= limit:
            attempt.fail(FailureKind.HANG, _describe_hang(attempt, limit), now)
            return self._end(now)
        if not self._reports_steps and now.seconds - attempt.warned_at.seconds >= limit:
            attempt.warned_at = now
            self.warnings.append(
                f"no output and no CPU time for {format_duration(limit)}; the program writes no progress lines, so "
                "nothing is done about it"
            )
        return []

    def _start_deadline(self, now: Moment) -> list[Action]:
        limit = format_duration(self.spec.limits.start_seconds)
        nodes = range(self.spec.num_nodes)
        attempt = self.attempt
        match self.phase:
            case Phase.JOINING:
                text = f"{list_nodes([rank for rank in nodes if rank not in self.joined])} did not join"
            case Phase.CHECKING:
                text = f"{list_nodes([rank for rank in nodes if rank not in self.checked])} did not finish the checks"
            case Phase.FETCHING:
                text = f"{list_nodes([rank for rank in nodes if rank not in self.fetched])} did not get the data set"
            case Phase.PREPARING:
                text = "the storage did not answer"
            case _:
                assert attempt is not None
                text = f"{list_nodes([rank for rank in nodes if rank not in attempt.started])} did not start the ranks"
        kind = FailureKind.START_DEADLINE
        verdict = Verdict(ExitCode.STOPPED, RunState.STOPPED, kind.value, f"{text} within {limit}")
        if self.phase is not Phase.STARTING or attempt is None:
            return self._finish(verdict, now)
        self._pending = verdict
        attempt.fail(kind, verdict.message, now)
        return self._end(now)

    # --- small parts

    def _enter(self, phase: Phase, now: Moment) -> None:
        self.phase, self.phase_at = phase, now

    def _all_nodes(self, nodes: set[int]) -> bool:
        return all(rank in nodes or rank in self.lost for rank in range(self.spec.num_nodes))

    def _pending_verdict(self) -> Verdict:
        assert self._pending is not None
        return self._pending


def _describe_hang(attempt: Attempt, limit: float) -> str:
    reached = "no step yet" if attempt.last_step is None else f"the last was step {attempt.last_step}"
    behind = attempt.slowest_ranks()
    blame = f"; furthest behind: rank {', '.join(str(rank) for rank in behind)}" if behind else ""
    return f"no rank made a new step for {format_duration(limit)} ({reached}{blame})"
