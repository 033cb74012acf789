"""The gang's state machine, event by event: who is blamed, what follows, which limit acts."""

from datetime import UTC, datetime, timedelta

import pytest

from components.agent.coordinator import Coordinator, Phase
from components.agent.events import (
    Action,
    CommitFailed,
    CommitStep,
    Committed,
    Event,
    Heard,
    Lost,
    Moment,
    Prepare,
    Prepared,
    PrepareFailed,
    Retain,
    RetainEnded,
    Tell,
    Tick,
    VerifyEnded,
    VerifyStep,
)
from components.agent.gang_view import gang_state
from components.agent.messages import (
    Check,
    Checked,
    Discard,
    Down,
    Drained,
    Fetch,
    Fetched,
    Finish,
    FromNode,
    GuardLost,
    Joined,
    Kill,
    Progressed,
    Published,
    PublishFailed,
    RankExited,
    Start,
    Started,
    StartedRank,
    Stop,
    Terminated,
    Trouble,
)
from components.contracts.checks import CheckResult, CheckStatus
from components.contracts.gang import (
    CheckpointRule,
    FailureKind,
    GangLimits,
    GangSpec,
    GangState,
    ResumeRule,
    StepView,
)
from components.contracts.retention import RetentionPolicy

LIMITS = GangLimits(start_seconds=60, run_seconds=1000, no_progress_seconds=30, stop_seconds=10)


def a_spec(**changes: object) -> GangSpec:
    values = {
        "run": "toy-bcdfg", "generation": 0, "experiment": "toy", "model_version": "v1", "storage": "file:///nowhere",
        "data_version": "d-1", "num_nodes": 2, "nproc_per_node": 1, "command": ("train",), "start": "rank",
        "workdir": "", "env": {}, "seed": 1, "limits": LIMITS, "run_seconds_used": 0.0, "max_restarts": 3,
        "checkpoint": CheckpointRule(every_steps=10, writers="rank0", verify_level="files", retain=RetentionPolicy()),
        "resume": ResumeRule(source="latest", on_new_data="refuse"), "memory_per_rank_bytes": 0,
        "begin_reason": "FirstStart", "begin_charged": False, "coordinator_host": "127.0.0.1", "coordinator_port": 0,
        "coordinator_file": "",
    }  # fmt: skip
    return GangSpec.model_validate({**values, **changes})


class Drive:
    """A coordinator and its clock. `term` counts as the ledger would."""

    def __init__(self, **changes: object) -> None:
        self.seconds = 0.0
        self.coordinator = Coordinator(a_spec(**changes), now=self.now)
        self.term = self.used = 0

    @property
    def now(self) -> Moment:
        start = datetime(2026, 11, 29, tzinfo=UTC)
        return Moment(self.seconds, start + timedelta(seconds=self.seconds))

    @property
    def state(self) -> GangState:
        return gang_state(self.coordinator, self.now)

    @property
    def phase(self) -> Phase:
        return self.coordinator.phase

    def do(self, event: Event) -> list[Action]:
        return self.coordinator.handle(event, self.now)

    def hear(self, node_rank: int, message: FromNode) -> list[Action]:
        return self.do(Heard(node_rank, message))

    def after(self, seconds: float) -> list[Action]:
        self.seconds += seconds
        return self.do(Tick())

    def join(self) -> list[Action]:
        actions: list[Action] = []
        for rank in range(self.coordinator.spec.num_nodes):
            actions = self.hear(rank, Joined(host=f"n{rank}", pid=1, probe_host="127.0.0.1", probe_port=9))
        return actions

    def check(self, *results: CheckResult, node_rank: int = 0) -> list[Action]:
        actions: list[Action] = []
        for rank in range(self.coordinator.spec.num_nodes):
            actions = self.hear(rank, Checked(results=results if rank == node_rank else ()))
        return self.fetch() if told(actions) == [Fetch] else actions

    def fetch(self) -> list[Action]:
        actions: list[Action] = []
        for rank in range(self.coordinator.spec.num_nodes):
            actions = self.hear(rank, Fetched())
        return actions

    def prepared(self, prepare: Action, *, source: str | None = None, step: int = 0) -> list[Action]:
        assert isinstance(prepare, Prepare)
        self.term += 1
        self.used += prepare.charged
        return self.do(Prepared(prepare.attempt, self.term, source, step, None, 4000 + self.term, self.used))

    def started(self) -> None:
        for rank in range(self.coordinator.spec.num_nodes):
            self.hear(rank, Started(attempt=self.number, ranks=(StartedRank(rank=rank, pid=100 + rank),)))

    def run(self) -> None:
        """To the first attempt's running ranks."""
        self.join()
        (prepare,) = self.check()
        self.prepared(prepare)
        self.started()
        assert self.phase is Phase.RUNNING

    @property
    def number(self) -> int:
        assert self.coordinator.attempt is not None
        return self.coordinator.attempt.number

    def exit(
        self, rank: int, code: int | None = None, *, signal: str | None = None, at: float = 0, by_us: bool = False,
        lines: tuple[str, ...] = (), error: str | None = None,
    ) -> list[Action]:  # fmt: skip
        return self.hear(rank, RankExited(
            attempt=self.number, rank=rank, exit_code=code, signal=signal, at=at, ended_by_us=by_us, last_lines=lines,
            error=error,
        ))  # fmt: skip

    def step(self, step: int, *, rank: int = 0, loss: float = 1.0) -> None:
        views = (StepView(step=step, at=self.now.text, loss=loss),) if rank == 0 else ()
        self.hear(rank, Progressed(
            attempt=self.number, reports_steps=True, steps={rank: step}, views=views, metrics={step: {"loss": loss}},
        ))  # fmt: skip

    def settle(self) -> list[Action]:
        """Every node reports its ranks gone and nothing left to publish."""
        actions: list[Action] = []
        for rank in range(self.coordinator.spec.num_nodes):
            actions += self.hear(rank, Down(attempt=self.number))
        for rank in range(self.coordinator.spec.num_nodes):
            actions += self.hear(rank, Drained(attempt=self.number))
        return actions


def verdict(actions: list[Action]) -> tuple[int, str]:
    finish = [action.message for action in actions if isinstance(action, Tell) and isinstance(action.message, Finish)]
    assert finish, actions
    return finish[0].exit_code, finish[0].reason


def told(actions: list[Action]) -> list[type]:
    return [type(action.message) for action in actions if isinstance(action, Tell)]


# --- start


def test_nothing_starts_before_every_node_joined_and_passed_its_checks() -> None:
    drive = Drive(num_nodes=3)
    for rank in (0, 1):
        assert drive.hear(rank, Joined(host="n", pid=1, probe_port=9)) == []
    assert told(drive.hear(2, Joined(host="n", pid=1, probe_port=9))) == [Check]
    assert drive.hear(0, Checked(results=())) == []
    assert drive.hear(1, Checked(results=())) == []
    assert told(drive.hear(2, Checked(results=()))) == [Fetch]
    assert drive.hear(1, Fetched()) == []
    assert drive.hear(0, Fetched()) == []
    (prepare,) = drive.hear(2, Fetched())
    assert prepare == Prepare(attempt=0, reason="FirstStart", charged=False)
    (start,) = drive.prepared(prepare)
    assert isinstance(start, Tell)
    assert start.node_rank is None
    assert isinstance(start.message, Start)
    assert (start.message.term, start.message.master_port) == (1, 4001)
    assert drive.state.state == "Starting"
    drive.started()
    assert drive.state.state == "Running"


def a_check(status: CheckStatus, scope: str) -> CheckResult:
    return CheckResult(
        name="memory", status=status, hard=True, scope=scope, measured="1 GiB", expected="2 GiB", origin="test",
        remedy="buy more",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("status", "scope", "codes"),
    [
        (CheckStatus.FAIL, "node", [92, 80]),
        (CheckStatus.FAIL, "environment", [81, 81]),
        (CheckStatus.FAIL, "input", [78, 78]),
        (CheckStatus.UNKNOWN, "node", [83, 83]),
    ],
)
def test_a_blocking_check_stops_the_gang_before_any_rank_starts(
    status: CheckStatus, scope: str, codes: list[int]
) -> None:
    drive = Drive()
    drive.join()
    actions = drive.check(a_check(status, scope), node_rank=1)
    assert [action.message.exit_code for action in actions if isinstance(action, Tell)] == codes  # type: ignore[union-attr]
    assert drive.state.reason == "ChecksFailed"
    assert "node 1: check memory is" in drive.state.message
    assert "buy more" in drive.state.message


def test_a_checkpoint_that_cannot_be_brought_to_a_node_ends_the_gang_for_that_reason() -> None:
    drive = Drive()
    drive.join()
    (prepare,) = drive.check()
    drive.prepared(prepare, source="step-10-term-1", step=10)
    drive.hear(0, Started(attempt=0, ranks=(StartedRank(rank=0, pid=100),)))
    shortfall = Trouble(exit_code=75, reason="StorageNotAnswering", message="cannot read s3://b/x")
    actions = drive.hear(1, Fetched(failure=shortfall))

    assert told(actions) == [Kill]
    assert drive.phase is Phase.ENDING
    actions = drive.settle()
    assert verdict(actions) == (75, "StorageNotAnswering")
    assert drive.state.message == "node 1: cannot read s3://b/x"


def test_the_start_deadline_names_who_is_missing() -> None:
    drive = Drive(num_nodes=3)
    drive.hear(1, Joined(host="n", pid=1, probe_port=9))
    assert drive.after(59) == []
    assert verdict(drive.after(1)) == (83, "StartDeadline")
    assert drive.state.message == "nodes 0, 2 did not join within 1m"


def test_the_start_deadline_also_ends_ranks_that_did_start() -> None:
    drive = Drive()
    drive.join()
    (prepare,) = drive.check()
    drive.prepared(prepare)
    drive.hear(0, Started(attempt=0, ranks=(StartedRank(rank=0, pid=7),)))
    assert told(drive.after(60)) == [Kill]
    assert verdict(drive.settle()) == (83, "StartDeadline")


def test_what_the_ledger_refuses_is_the_verdict() -> None:
    drive = Drive()
    drive.join()
    drive.check()
    trouble = Trouble(exit_code=96, reason="NothingToResume", message="none can be resumed from")
    assert verdict(drive.do(PrepareFailed(trouble))) == (96, "NothingToResume")
    assert drive.state.exit_code == 96


# --- ends of ranks


def test_all_ranks_ending_with_0_is_success() -> None:
    drive = Drive()
    drive.run()
    assert drive.exit(0, 0) == []
    assert told(drive.exit(1, 0)) == [Kill]
    assert verdict(drive.settle()) == (0, "Succeeded")
    assert drive.state.attempts[0].outcome == "succeeded"


def test_a_gang_whose_ranks_all_succeeded_is_never_called_restarting() -> None:
    drive = Drive()
    drive.run()
    states = []
    for rank in (0, 1):
        drive.exit(rank, 0)
        states.append(drive.state.state)
    for message in (Down(attempt=0), Drained(attempt=0)):
        for rank in (0, 1):
            drive.hear(rank, message)
            states.append(drive.state.state)
    assert states == ["Running"] * 5 + ["Succeeded"]


def test_a_gang_is_called_restarting_from_the_failure_until_its_ranks_run_again() -> None:
    drive = Drive()
    drive.run()
    drive.exit(1, 3)
    assert (drive.phase, drive.state.state) == (Phase.ENDING, "Restarting")
    (prepare,) = drive.settle()
    assert drive.state.state == "Restarting"
    drive.prepared(prepare)
    assert (drive.phase, drive.state.state) == (Phase.STARTING, "Restarting")
    drive.started()
    assert drive.state.state == "Running"


def test_a_rank_that_is_done_waits_for_the_others() -> None:
    drive = Drive()
    drive.run()
    assert drive.exit(0, 0) == []
    assert drive.after(20) == []
    assert drive.phase is Phase.RUNNING


def test_a_failing_rank_takes_the_gang_down_and_the_gang_restarts_in_place() -> None:
    drive = Drive()
    drive.run()
    drive.step(4)
    assert told(drive.exit(1, 3, at=5.0, lines=("boom",))) == [Kill]
    drive.exit(0, signal="SIGTERM", by_us=True, at=5.2)
    (prepare,) = drive.settle()
    assert prepare == Prepare(attempt=1, reason="RankExit", charged=True)
    assert drive.state.state == "Restarting"
    assert drive.state.reason == "RankExit"
    failure = drive.state.attempts[0].failure
    assert failure is not None
    assert (failure.kind, failure.rank, failure.exit_code, failure.last_lines) == ("RankExit", 1, 3, ("boom",))
    drive.prepared(prepare, source="step-2-term-1", step=2)
    drive.started()
    assert [attempt.charged for attempt in drive.state.attempts] == [False, True]
    assert drive.state.attempts[1].resumed_step == 2
    assert drive.state.restarts_used == 1


def test_the_earliest_failure_is_blamed_though_it_is_heard_last() -> None:
    drive = Drive()
    drive.run()
    drive.exit(0, 1, at=10.03, lines=("Connection closed by peer",))
    drive.exit(1, signal="SIGKILL", at=10.0)
    drive.settle()
    failure = drive.state.attempts[0].failure
    assert failure is not None
    assert (failure.rank, failure.signal) == (1, "SIGKILL")
    assert failure.message == "rank 1 was killed by SIGKILL; rank 0 exited with code 1 0.030 s later"


def test_ranks_may_end_by_themselves_until_it_is_clear_which_failed_first() -> None:
    drive = Drive(num_nodes=3)
    drive.run()
    assert drive.exit(0, 1, at=10.0, lines=("a peer is gone",)) == [Tell(None, Kill(attempt=0, patience_seconds=1))]
    assert drive.exit(2, 1, at=10.1, lines=("a peer is gone",)) == []
    assert drive.exit(1, 3, at=10.2) == [Tell(None, Kill(attempt=0))]
    drive.settle()
    failure = drive.state.attempts[0].failure
    assert failure is not None
    assert (failure.rank, failure.exit_code) == (1, 3)


def test_a_rank_killed_by_a_signal_leaves_nothing_to_wait_for() -> None:
    drive = Drive()
    drive.run()
    assert drive.exit(1, signal="SIGKILL", at=10.0) == [Tell(None, Kill(attempt=0))]
    assert drive.exit(0, 1, at=10.1, lines=("a peer is gone",)) == []


@pytest.mark.parametrize(("kind", "code", "reason"), [("exit", 90, "WorkerFailed"), ("hang", 91, "Hang")])
def test_without_a_restart_left_the_failure_is_final(kind: str, code: int, reason: str) -> None:
    drive = Drive(max_restarts=0)
    drive.run()
    drive.step(1)
    if kind == "exit":
        drive.exit(0, 7)
    else:
        assert told(drive.after(31)) == [Kill]
    assert verdict(drive.settle()) == (code, reason)
    assert "0 of 0 restarts used" in drive.state.message
    assert drive.state.state == "Failed"


def test_a_command_that_cannot_start_is_not_tried_again() -> None:
    drive = Drive()
    drive.join()
    (prepare,) = drive.check()
    drive.prepared(prepare)
    assert told(drive.exit(0, error="cannot start 'trian': No such file")) == [Kill]
    assert verdict(drive.settle()) == (90, "StartFailed")
    assert "cannot start 'trian'" in drive.state.message


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("port: 4001, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use", "PortTaken"),
        ("OSError: [Errno 98] Address already in use", "PortTaken"),
        ("tensorboard: port 6006: address already in use", "RankExit"),
    ],
)
def test_a_taken_rendezvous_port_is_told_from_a_port_of_the_program(line: str, kind: str) -> None:
    drive = Drive()
    drive.run()
    drive.exit(0, 1, lines=("Traceback", line))
    (prepare,) = drive.settle()
    assert prepare == Prepare(attempt=1, reason=kind, charged=kind != "PortTaken")


def test_a_port_that_is_always_taken_is_charged_in_the_end() -> None:
    drive = Drive(max_restarts=0)
    drive.run()
    for _ in range(5):
        drive.exit(0, 1, lines=("Address already in use",))
        (prepare,) = drive.settle()
        assert isinstance(prepare, Prepare)
        assert not prepare.charged
        drive.prepared(prepare)
        drive.started()
    drive.exit(0, 1, lines=("Address already in use",))
    assert verdict(drive.settle()) == (90, "WorkerFailed")


def test_three_attempts_that_get_no_further_end_the_run_while_restarts_are_left() -> None:
    drive = Drive(max_restarts=9)
    drive.run()
    for reached in (5, 4):
        drive.step(reached)
        drive.exit(0, 1)
        (prepare,) = drive.settle()
        drive.prepared(prepare)
        drive.started()
    drive.exit(0, 1)
    assert verdict(drive.settle()) == (94, "NoProgress")
    assert "3 attempts in a row got no further than step 5" in drive.state.message


def test_a_program_without_steps_is_never_said_to_stand_still() -> None:
    drive = Drive(max_restarts=4)
    drive.run()
    for _ in range(4):
        drive.exit(0, 1)
        (prepare,) = drive.settle()
        drive.prepared(prepare)
        drive.started()
    drive.exit(0, 1)
    assert verdict(drive.settle()) == (90, "WorkerFailed")


# --- limits


def test_a_gang_without_new_steps_hangs_and_the_slow_rank_is_named() -> None:
    drive = Drive()
    drive.run()
    drive.step(3)
    drive.step(2, rank=1)
    drive.seconds += 29
    drive.step(3)  # said before
    assert told(drive.after(2)) == [Kill]
    (prepare,) = drive.settle()
    assert prepare == Prepare(attempt=1, reason="Hang", charged=True)
    failure = drive.state.attempts[0].failure
    assert failure is not None
    assert failure.message == "no rank made a new step for 30s (the last was step 3; furthest behind: rank 1)"


def test_a_program_that_reports_no_steps_is_warned_about_and_left_alone() -> None:
    drive = Drive()
    drive.run()
    assert drive.after(31) == []
    assert "no output and no CPU time for 30s" in drive.coordinator.take_warnings()[0]
    assert drive.coordinator.take_warnings() == []
    drive.hear(0, Progressed(attempt=0, reports_steps=False, activity=5.0))
    drive.after(29)
    assert drive.coordinator.take_warnings() == []


def test_a_program_known_to_report_steps_may_hang_before_the_first() -> None:
    drive = Drive()
    drive.run()
    drive.step(1)
    drive.exit(0, 1)
    (prepare,) = drive.settle()
    drive.prepared(prepare)
    drive.started()
    assert told(drive.after(31)) == [Kill]


def test_the_run_limit_counts_all_attempts_and_generations() -> None:
    drive = Drive(run_seconds_used=900.0)
    drive.run()
    drive.step(1)
    drive.seconds += 20
    drive.exit(0, 1)
    (prepare,) = drive.settle()
    drive.seconds += 500  # not running
    drive.prepared(prepare)
    drive.started()
    drive.step(2)
    for step in range(3, 10):
        drive.seconds += 10
        drive.step(step)
    assert drive.after(9) == []
    assert told(drive.after(1)) == [Stop]
    drive.exit(0, 0, by_us=True)
    drive.exit(1, 0, by_us=True)
    assert verdict(drive.settle()) == (83, "RunDeadline")
    failure = drive.state.attempts[1].failure
    assert failure is not None
    assert failure.kind is FailureKind.RUN_DEADLINE


# --- stop


def test_ranks_that_end_with_0_while_stopping_are_stopped_not_successful() -> None:
    drive = Drive()
    drive.run()
    assert told(drive.hear(1, Terminated())) == [Stop]
    assert drive.hear(0, Terminated()) == []
    drive.exit(0, 0, by_us=True)
    assert told(drive.exit(1, 0, by_us=True)) == [Kill]
    assert verdict(drive.settle()) == (83, "StopRequested")
    assert (drive.state.state, drive.state.attempts[0].outcome) == ("Stopped", "stopped")


def test_ranks_that_ignore_a_stop_are_killed_at_its_limit() -> None:
    drive = Drive()
    drive.run()
    drive.hear(0, Terminated())
    assert drive.after(9.9) == []
    assert told(drive.after(0.1)) == [Kill]
    drive.exit(0, signal="SIGKILL", by_us=True)
    assert verdict(drive.settle()) == (83, "StopRequested")
    assert drive.state.attempts[0].failure is None


def test_a_stop_before_the_ranks_run_is_immediate() -> None:
    drive = Drive()
    drive.join()
    assert verdict(drive.hear(0, Terminated())) == (83, "StopRequested")


def test_a_stop_during_a_restart_prevents_it() -> None:
    drive = Drive()
    drive.run()
    drive.exit(0, 1)
    drive.hear(0, Terminated())
    assert verdict(drive.settle()) == (83, "StopRequested")
    assert drive.state.attempts[0].failure is not None


# --- losses


def test_a_lost_agent_ends_the_gang_for_the_launcher_to_replace() -> None:
    drive = Drive()
    drive.run()
    assert told(drive.do(Lost(1, "silent for 5 s"))) == [Kill]
    drive.hear(0, Down(attempt=0))
    assert verdict(drive.hear(0, Drained(attempt=0))) == (92, "AgentLost")
    failure = drive.state.attempts[0].failure
    assert failure is not None
    assert (failure.kind, failure.node_rank) == ("AgentLost", 1)


def test_a_lost_guard_ends_the_gang_too() -> None:
    drive = Drive()
    drive.run()
    assert told(drive.hear(1, GuardLost(message="killed by SIGKILL"))) == [Kill]
    assert verdict(drive.settle()) == (92, "GuardLost")


def test_an_agent_lost_while_joining_ends_the_gang() -> None:
    drive = Drive()
    drive.hear(1, Joined(host="n", pid=1, probe_port=9))
    assert verdict(drive.do(Lost(1, "closed"))) == (92, "AgentLost")


def test_an_agent_lost_after_it_did_its_part_changes_nothing() -> None:
    drive = Drive()
    drive.run()
    drive.exit(0, 0)
    drive.exit(1, 0)
    drive.hear(0, Down(attempt=0))
    drive.hear(1, Down(attempt=0))
    drive.hear(1, Drained(attempt=0))
    assert drive.do(Lost(1, "closed")) == []
    assert verdict(drive.hear(0, Drained(attempt=0))) == (0, "Succeeded")


def test_a_node_whose_ranks_survive_sigkill_is_given_up() -> None:
    drive = Drive()
    drive.run()
    drive.exit(0, 1)
    drive.hear(0, Down(attempt=0))
    drive.hear(0, Drained(attempt=0))
    assert drive.after(14) == []
    assert verdict(drive.after(1)) == (92, "RanksStuck")


# --- checkpoints


def published(drive: Drive, step: int, *, node_rank: int = 0) -> list[Action]:
    return drive.hear(node_rank, Published(term=drive.term, step=step))


def test_a_ready_step_is_committed_with_rank_0s_metrics_and_then_verified() -> None:
    drive = Drive()
    drive.run()
    drive.step(9, loss=2.5)
    drive.step(10, loss=2.0)
    drive.step(11, loss=1.9)
    (commit,) = published(drive, 10)
    assert commit == CommitStep(term=1, step=10, parent=None, metrics={"loss": 2.0})
    discard, verify = drive.do(Committed(term=1, step=10, checkpoint="step-10-term-1"))
    assert discard == Tell(None, Discard(term=1, step=10))
    assert verify == VerifyStep("step-10-term-1")
    assert drive.state.checkpoints[0].state == "committed"
    assert drive.do(VerifyEnded("step-10-term-1", 0, level="digests")) == [Retain(after="step-10-term-1")]
    assert drive.do(RetainEnded()) == []
    (view,) = drive.state.checkpoints
    assert (view.state, view.level) == ("verified", "digests")


def test_commits_do_not_wait_for_verification_but_verifications_wait_for_each_other() -> None:
    drive = Drive()
    drive.run()
    published(drive, 10)
    assert published(drive, 20) == []
    first = drive.do(Committed(1, 10, "step-10-term-1"))
    assert [type(action) for action in first] == [Tell, CommitStep, VerifyStep]
    assert told(drive.do(Committed(1, 20, "step-20-term-1"))) == [Discard]
    assert drive.do(VerifyEnded("step-10-term-1", 96, "NaN in w")) == [Retain(after="step-10-term-1")]
    assert drive.do(RetainEnded()) == [VerifyStep("step-20-term-1")]
    assert [view.state for view in drive.state.checkpoints] == ["quarantined", "committed"]


def test_with_all_writers_a_step_needs_every_receipt() -> None:
    rule = CheckpointRule(every_steps=10, writers="all", verify_level="files", retain=RetentionPolicy())
    drive = Drive(checkpoint=rule)
    drive.run()
    assert published(drive, 10) == []
    assert published(drive, 20) == []
    actions = published(drive, 20, node_rank=1)  # node 1 never finished step 10
    assert actions == [CommitStep(1, 20, None, {})]
    assert [(view.step, view.state) for view in drive.state.checkpoints] == [(10, "abandoned")]
    assert published(drive, 10, node_rank=1) == []
    assert Tell(None, Discard(term=1, step=10)) in drive.do(Committed(1, 20, "step-20-term-1"))


def test_success_waits_for_the_last_checkpoint_to_be_verified() -> None:
    drive = Drive()
    drive.run()
    published(drive, 10)
    drive.exit(0, 0)
    drive.exit(1, 0)
    assert drive.settle() == []
    assert drive.state.reason == "Finishing"
    drive.do(Committed(1, 10, "step-10-term-1"))
    assert drive.after(500) == []
    drive.do(VerifyEnded("step-10-term-1", 0))
    assert drive.after(500) == []
    assert verdict(drive.do(RetainEnded()))[0] == 0


def test_what_retention_deletes_is_shown_as_retired() -> None:
    drive = Drive()
    drive.run()
    published(drive, 10)
    drive.do(Committed(1, 10, "step-10-term-1"))
    drive.do(VerifyEnded("step-10-term-1", 0))
    drive.do(RetainEnded(("step-10-term-1", "step-5-term-0")))
    assert [view.state for view in drive.state.checkpoints] == ["retired"]


def test_a_restart_waits_for_the_newest_checkpoint_only() -> None:
    drive = Drive()
    drive.run()
    for step in (10, 20, 30):
        published(drive, step)
        drive.do(Committed(1, step, f"step-{step}-term-1"))
    drive.exit(0, 1)
    assert drive.settle() == []
    drive.do(VerifyEnded("step-10-term-1", 0))
    assert drive.do(RetainEnded()) == [VerifyStep("step-30-term-1")]
    actions = drive.do(VerifyEnded("step-30-term-1", 0))
    assert [type(action) for action in actions] == [Retain, Prepare]
    assert drive.do(RetainEnded()) == [VerifyStep("step-20-term-1")]


def test_a_restart_waits_for_the_last_checkpoint_and_never_commits_an_incomplete_one() -> None:
    drive = Drive()
    drive.run()
    drive.step(12)
    published(drive, 10)
    drive.exit(0, 1)
    assert drive.settle() == []
    drive.do(Committed(1, 10, "step-10-term-1"))
    actions = drive.do(VerifyEnded("step-10-term-1", 0))
    assert any(isinstance(action, Prepare) for action in actions)


def test_a_fenced_gang_ends_at_once() -> None:
    drive = Drive()
    drive.run()
    published(drive, 10)
    trouble = Trouble(exit_code=83, reason="Fenced", message="term 2 has begun")
    actions = drive.do(CommitFailed(1, 10, trouble, is_fenced=True))
    assert told(actions) == [Kill]
    assert verdict(drive.settle()) == (83, "Fenced")


def test_a_checkpoint_that_could_not_be_saved_at_the_end_is_no_success() -> None:
    drive = Drive()
    drive.run()
    message = "cannot write: No space left on device"
    trouble = Trouble(exit_code=81, reason="StorageRefused", message=message)
    drive.hear(0, PublishFailed(term=1, step=10, trouble=trouble))
    drive.exit(0, 0)
    drive.exit(1, 0)
    assert verdict(drive.settle()) == (81, "StorageRefused")
    assert "the ranks succeeded, but the last checkpoint could not be saved" in drive.state.message


def test_a_failed_save_is_forgiven_by_a_later_one_and_its_files_go_only_then() -> None:
    drive = Drive()
    drive.run()
    trouble = Trouble(exit_code=81, reason="StorageRefused", message="disk full")
    assert drive.hear(0, PublishFailed(term=1, step=10, trouble=trouble)) == []
    published(drive, 20)
    actions = drive.do(Committed(1, 20, "step-20-term-1"))
    assert Tell(None, Discard(term=1, step=10)) in actions
    drive.do(VerifyEnded("step-20-term-1", 0))
    drive.do(RetainEnded())
    drive.exit(0, 0)
    drive.exit(1, 0)
    assert verdict(drive.settle())[0] == 0


def test_a_stop_commits_what_is_ready_but_not_beyond_its_limit() -> None:
    drive = Drive()
    drive.run()
    drive.hear(0, Terminated())
    drive.seconds += 4
    published(drive, 10)
    drive.exit(0, 0, by_us=True)
    drive.exit(1, 0, by_us=True)
    assert drive.settle() == []
    assert drive.after(5) == []
    assert verdict(drive.after(1)) == (83, "StopRequested")


def test_messages_of_an_earlier_attempt_are_ignored() -> None:
    drive = Drive()
    drive.run()
    drive.step(3)
    drive.exit(0, 1)
    (prepare,) = drive.settle()
    drive.prepared(prepare)
    drive.started()
    assert drive.hear(1, RankExited(attempt=0, rank=1, exit_code=1, at=0)) == []
    assert drive.hear(0, Published(term=1, step=10)) == []
    assert drive.phase is Phase.RUNNING


def test_with_one_process_a_node_its_ranks_share_its_fate() -> None:
    drive = Drive(start="node", nproc_per_node=2, num_nodes=1)
    drive.join()
    (prepare,) = drive.check()
    drive.prepared(prepare)
    drive.hear(0, Started(attempt=0, ranks=(StartedRank(rank=0, pid=7),)))
    assert [(view.rank, view.state, view.pid) for view in drive.state.ranks] == [(0, "Running", 7), (1, "Running", 7)]
    drive.exit(0, 0)
    assert verdict(drive.settle())[0] == 0
