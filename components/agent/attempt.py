"""One START and what became of it: its ranks, its steps, who is down, what ended it."""

from dataclasses import dataclass

from components.agent.events import Moment, Prepared
from components.agent.first_failure import ExitSeen, first_failure, patience_seconds
from components.agent.messages import Progressed, RankExited, Started
from components.contracts.gang import AttemptView, Failure, FailureKind, GangSpec, RankView
from components.contracts.lifecycle import RankState


@dataclass
class _Rank:
    state: RankState = RankState.STARTING
    pid: int | None = None
    step: int | None = None
    exit_code: int | None = None
    signal: str | None = None


class Attempt:
    """Mutable; the coordinator asks it, tells it, and decides."""

    def __init__(self, spec: GangSpec, prepared: Prepared, *, charged: bool, now: Moment) -> None:
        self._spec = spec
        self.prepared, self.number, self.term = prepared, prepared.attempt, prepared.term
        self.charged = charged
        self.started_at = self.progress_at = self.warned_at = now
        self.ended_at: Moment | None = None
        self.first_step: int | None = None
        self.first_step_at: Moment | None = None
        self.last_step: int | None = None
        self.failure: Failure | None = None
        self.outcome: str = "running"
        self.ended_by_failure = False
        """A rank's failure took the others down, whatever happened meanwhile."""
        self.started: set[int] = set()
        self.down: set[int] = set()
        self.drained: set[int] = set()
        self.gone: set[int] = set()
        """Node ranks whose agent or guard is lost, and their ranks with it."""
        self._exits: list[ExitSeen] = []
        self._activity: dict[int, float] = {}
        per_process = spec.nproc_per_node if spec.start == "node" else 1
        self._processes = range(0, spec.world_size, per_process)
        self._ranks = {rank: _Rank() for rank in range(spec.world_size)}

    @property
    def all_succeeded(self) -> bool:
        ended = {seen.exit.rank for seen in self._exits if seen.exit.exit_code == 0}
        return ended.issuperset(self._processes)

    @property
    def all_exited(self) -> bool:
        """Also when the rest was on nodes that are gone."""
        gone = {rank for rank in self._processes if rank // self._spec.nproc_per_node in self.gone}
        return {seen.exit.rank for seen in self._exits}.union(gone).issuperset(self._processes)

    @property
    def has_failure(self) -> bool:
        return any(seen.is_failure for seen in self._exits)

    @property
    def patience_seconds(self) -> float:
        """How long the other ranks may still end by themselves; 0 once it is clear what came first."""
        return patience_seconds(self._exits)

    @property
    def has_failed(self) -> bool:
        """Also while its ranks are still being ended for it."""
        return self.ended_by_failure or self.failure is not None or self.outcome == "failed"

    def running_seconds(self, now: Moment) -> float:
        return (self.ended_at or now).seconds - self.started_at.seconds

    def on_started(self, message: Started) -> None:
        for started in message.ranks:
            for rank in self._of_process(started.rank):
                if self._ranks[rank].state is RankState.STARTING:
                    self._ranks[rank].state, self._ranks[rank].pid = RankState.RUNNING, started.pid

    def on_exit(self, node_rank: int, message: RankExited) -> None:
        self._exits.append(ExitSeen(node_rank, message))
        for rank in self._of_process(message.rank):
            view = self._ranks[rank]
            view.exit_code, view.signal = message.exit_code, message.signal
            if message.exit_code == 0:
                view.state = RankState.SUCCEEDED
            else:
                view.state = RankState.KILLED if message.ended_by_us else RankState.FAILED

    def on_progress(self, node_rank: int, message: Progressed, now: Moment) -> None:
        for rank, step in message.steps.items():
            if rank not in self._ranks:
                continue
            self._ranks[rank].step = step
            if self.last_step is None or step > self.last_step:
                self.last_step = step
                self.progress_at = self.warned_at = now
        if self.first_step is None and message.steps:
            self.first_step = min([*message.steps.values(), *(view.step for view in message.views)])
            self.first_step_at = now
        if message.activity > self._activity.get(node_rank, 0):
            self._activity[node_rank] = message.activity
            self.warned_at = now

    def on_node_gone(self, node_rank: int) -> None:
        self.gone.add(node_rank)
        for rank, view in self._ranks.items():
            is_over = view.state in (RankState.SUCCEEDED, RankState.FAILED)
            if rank // self._spec.nproc_per_node == node_rank and not is_over:
                view.state = RankState.KILLED

    def attribute(self) -> Failure | None:
        return first_failure(
            self._exits, master_port=self.prepared.master_port, has_stepped=self.first_step is not None
        )

    def fail(self, kind: FailureKind, message: str, now: Moment, *, node_rank: int | None = None) -> None:
        """The cause is not a rank's own end. An earlier cause stays."""
        if self.failure is None:
            self.failure = Failure(kind=kind, node_rank=node_rank, message=message, at=now.text)

    def view(self) -> AttemptView:
        return AttemptView.model_validate(
            {
                "term": self.term, "attempt": self.number, "resumed_from": self.prepared.source,
                "resumed_step": self.prepared.source_step, "started_at": self.started_at.text,
                "first_step_at": self.first_step_at and self.first_step_at.text,
                "ended_at": self.ended_at and self.ended_at.text,
                "first_step": self.first_step, "last_step": self.last_step, "outcome": self.outcome,
                "failure": self.failure, "charged": self.charged,
            }
        )  # fmt: skip

    def rank_views(self) -> tuple[RankView, ...]:
        return tuple(
            RankView(
                rank=rank, node_rank=rank // self._spec.nproc_per_node, state=view.state, pid=view.pid, step=view.step,
                exit_code=view.exit_code, signal=view.signal,
            )
            for rank, view in self._ranks.items()
        )  # fmt: skip

    def slowest_ranks(self) -> list[int]:
        """Ranks that are the furthest behind, when not all are at the same step."""
        steps = {rank: -1 if view.step is None else view.step for rank, view in self._ranks.items()}
        least, most = min(steps.values()), max(steps.values())
        return [rank for rank, step in steps.items() if step == least] if least < most else []

    def _of_process(self, process: int) -> range:
        """The ranks that one process of the guard stands for."""
        return range(process, min(process + self._processes.step, self._spec.world_size))
