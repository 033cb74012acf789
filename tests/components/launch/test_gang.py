"""The gang state machine: what is done next, given what is seen."""

import pytest

from components.contracts.gang import GangLimits, GangState
from components.contracts.lifecycle import RunState
from components.launch.backend import AgentPhase, AgentStatus
from components.launch.failure_policy import Finish, NewGeneration, StopCause
from components.launch.gang import Action, Observation, RemoveGang, StopGang, Stopping, Wait, next_action
from tests.components.launch.values import a_budget, a_state, an_attempt, exited, running

LIMITS = GangLimits(start_seconds=100.0, run_seconds=1000.0, no_progress_seconds=50.0, stop_seconds=30.0)
BOTH = (running(0), running(1))
UP = a_state(RunState.RUNNING)
STARTING = a_state(RunState.STARTING)


def act(
    *,
    agents: tuple[AgentStatus, ...] = BOTH,
    state: GangState | None = UP,
    created: float = 500.0,
    news: float = 1.0,
    first_exit: float | None = None,
    intent: StopCause | None = None,
    stopping: Stopping | None = None,
) -> Action:
    seen = Observation(agents, state, since_creation=created, since_news=news, since_first_exit=first_exit)
    return next_action(seen, limits=LIMITS, budget=a_budget(), intent=intent, stopping=stopping, flush_seconds=5.0)


def test_a_gang_that_trains_is_left_alone() -> None:
    assert act() == Wait()


def test_a_gang_that_restarts_its_ranks_is_left_alone_however_long_ago_it_was_created() -> None:
    assert act(state=a_state(RunState.RESTARTING), created=99999.0) == Wait()


def test_a_gang_that_starts_has_until_shortly_after_limits_start() -> None:
    assert act(state=STARTING, created=102.9) == Wait()
    assert act(state=STARTING, created=103.0) == StopGang(StopCause.START_DEADLINE)


def test_a_gang_of_which_nothing_was_heard_has_until_shortly_after_limits_start() -> None:
    assert act(state=None, created=102.9, news=102.9) == Wait()
    assert act(state=None, created=103.0, news=103.0) == StopGang(StopCause.START_DEADLINE)


def test_agents_that_gave_up_on_a_program_whose_image_does_not_come_have_not_started() -> None:
    given_up = a_state(RunState.FAILED, exit_code=92, reason="GuardLost", num_joined=0)
    waiting = (AgentStatus(0, AgentPhase.PENDING), AgentStatus(1, AgentPhase.PENDING))

    assert act(agents=waiting, state=given_up, created=102.9) == Wait()
    assert act(agents=waiting, state=given_up, created=103.0) == StopGang(StopCause.START_DEADLINE)
    # Those whose program began leave by themselves, and say why.
    assert act(state=given_up, created=103.0) == Wait()


def test_a_stop_goes_to_the_gang_once() -> None:
    assert act(intent=StopCause.REQUESTED) == StopGang(StopCause.REQUESTED)
    assert act(intent=StopCause.REQUESTED, stopping=Stopping(StopCause.REQUESTED, 1.0)) == Wait()


def test_a_stop_is_heard_while_the_gang_is_removed_for_another_reason() -> None:
    stopping = Stopping(StopCause.START_DEADLINE, 1.0)
    assert act(intent=StopCause.REQUESTED, stopping=stopping) == StopGang(StopCause.REQUESTED)


@pytest.mark.parametrize(
    ("cause", "seconds"),
    [
        (StopCause.REQUESTED, 35.0),
        (StopCause.DEADLINE, 35.0),
        (StopCause.INTERRUPTED, 25.0),
        (StopCause.START_DEADLINE, 5.0),
    ],
)
def test_a_gang_that_does_not_stop_is_removed_when_its_time_is_over(cause: StopCause, seconds: float) -> None:
    assert act(stopping=Stopping(cause, seconds - 0.1)) == Wait()
    assert act(stopping=Stopping(cause, seconds)) == RemoveGang(cause)


def test_agents_left_behind_by_a_lost_one_are_removed_after_ten_seconds() -> None:
    agents = (running(0), exited(1, signal="SIGKILL"))
    assert act(agents=agents, first_exit=9.9) == Wait()
    assert act(agents=agents, first_exit=10.0) == RemoveGang(StopCause.LEFT_BEHIND)


def test_agents_that_still_commit_after_a_peer_left_with_a_verdict_get_the_time_for_it() -> None:
    agents, state = (running(0), exited(1, 83)), UP.model_copy(update={"attempts": (an_attempt(),)})
    assert act(agents=agents, state=state, first_exit=89.9) == Wait()
    assert act(agents=agents, state=state, first_exit=90.0) == RemoveGang(StopCause.LEFT_BEHIND)


def test_agents_of_a_gang_that_never_began_have_nothing_to_commit() -> None:
    assert act(agents=(exited(0, 83), running(1)), first_exit=10.0) == RemoveGang(StopCause.LEFT_BEHIND)


def test_an_agent_0_that_says_nothing_for_two_minutes_is_removed() -> None:
    assert act(news=119.9) == Wait()
    assert act(news=120.0) == RemoveGang(StopCause.SILENT)


def test_the_end_of_all_agents_is_judged() -> None:
    assert isinstance(act(agents=(exited(0, 0), exited(1, 0))), Finish)
    assert isinstance(act(agents=(exited(0, 92), exited(1, signal="SIGKILL"))), NewGeneration)


def test_the_end_of_all_agents_after_a_stop_is_judged_as_a_stop() -> None:
    ended = act(agents=(exited(0, 83), exited(1, 83)), stopping=Stopping(StopCause.INTERRUPTED, 2.0))
    assert isinstance(ended, Finish)
    assert ended.exit_code == 84


def test_what_was_missing_at_the_start_deadline_is_in_the_verdict() -> None:
    stopping = Stopping(StopCause.START_DEADLINE, 2.0, missing="1 of 2 nodes joined; node 1 never started")
    ended = act(agents=(exited(0, 83), exited(1, 83)), stopping=stopping)
    assert isinstance(ended, Finish)
    assert ended.seen == "1 of 2 nodes joined; node 1 never started"
