"""What follows the end of a generation."""

import pytest

from components.contracts.gang import FailureKind
from components.contracts.lifecycle import RunState
from components.launch.backend import AgentStatus
from components.launch.failure_policy import Ending, Finish, NewGeneration, StopCause, decide
from tests.components.launch.values import a_budget, a_failure, a_state, an_attempt, exited

KILLED = "SIGKILL"


@pytest.mark.parametrize(
    ("claim", "agents", "exit_code", "reason"),
    [
        ("agent 0's success is the run's", [exited(0, 0), exited(1, 0)], 0, "Succeeded"),
        ("a peer that dies after agent 0's success changes nothing", [exited(0, 0), exited(1, signal=KILLED)], 0,
         "Succeeded"),
        ("a success is not final until agent 0 says so", [exited(0, 90), exited(1, 0)], 90, "WorkerFailed"),
        ("a failed worker without restarts left ends the run", [exited(0, 90), exited(1, 90)], 90, "WorkerFailed"),
        ("a hang without restarts left ends the run", [exited(0, 91), exited(1, 91)], 91, "Hang"),
        ("agents that reached a limit stop the run", [exited(0, 83), exited(1, 83)], 83, "Stopped"),
        ("no progress across attempts ends the run", [exited(0, 94), exited(1, 94)], 94, "NoProgress"),
        ("a resume point that is not there ends the run", [exited(0, 78), exited(1, 92)], 78, "BadInput"),
        ("nothing committed ends the run", [exited(0, 96), exited(1, 96)], 96, "VerificationFailed"),
        ("an agent's bug ends the run", [exited(0, 92), exited(1, 70)], 70, "AgentBug"),
        ("a store that does not answer lets Argo try the stage again", [exited(0, 75), exited(1, 92)], 75,
         "StorageNotAnswering"),
        ("an unfit environment seen by one agent ends the run", [exited(0, 92), exited(1, 81)], 81, "EnvironmentUnfit"),
        ("an unfit node cannot be avoided on one machine", [exited(0, 80), exited(1, 80)], 81, "NodeUnfit"),
        ("why an agent left explains more than that its peer missed it", [exited(0, 92), exited(1, 78)], 78,
         "BadInput"),
    ],
)  # fmt: skip
def test_the_run_ends(claim: str, agents: list[AgentStatus], exit_code: int, reason: str) -> None:
    decision = decide(Ending(tuple(agents), None), a_budget())
    assert isinstance(decision, Finish), claim
    assert (decision.exit_code, decision.reason) == (exit_code, reason), claim


@pytest.mark.parametrize(
    ("claim", "agents", "seen"),
    [
        ("a killed agent", [exited(0, 92), exited(1, signal=KILLED)], "the agent of node 1 was killed by SIGKILL"),
        ("agent 0 killed", [exited(0, signal=KILLED), exited(1, 92)], "the agent of node 0 was killed by SIGKILL"),
        ("an agent that crashed", [exited(0, 92), exited(1, 1)], "the agent of node 1 exited with code 1"),
        ("an agent the kernel took", [exited(0, 137), exited(1, 92)], "the agent of node 0 exited with code 137"),
        ("agents that lost sight of each other", [exited(0, 92), exited(1, 92)],
         "the agent of node 0 exited with code 92"),
        ("a lost agent whose peers had to be removed", [exited(0, signal=KILLED, by_us=True), exited(1, 139)],
         "the agent of node 1 exited with code 139"),
        ("a survivor killed by us is not blamed", [exited(0, signal=KILLED, by_us=True), exited(1, 92)],
         "the agent of node 1 exited with code 92"),
    ],
)  # fmt: skip
def test_a_lost_agent_means_a_new_generation_that_costs_a_restart(
    claim: str, agents: list[AgentStatus], seen: str
) -> None:  # fmt: skip
    decision = decide(Ending(tuple(agents), None), a_budget(used=1, allowed=2))
    assert isinstance(decision, NewGeneration), claim
    assert (decision.reason, decision.charged, decision.seen) == ("AgentLost", True, seen), claim


def test_a_lost_agent_without_a_restart_left_ends_the_run() -> None:
    decision = decide(Ending((exited(0, 92), exited(1, signal=KILLED)), None), a_budget(used=2, allowed=2))
    assert decision == Finish(
        92, "AgentLost", "the agent of node 1 was killed by SIGKILL; 2 of 2 restarts used",
        "find out what ended it: memory, an administrator, the machine",
    )  # fmt: skip


def test_an_unfit_node_is_left_out_where_there_are_others() -> None:
    decision = decide(Ending((exited(0, 92), exited(1, 80)), None), a_budget(replaces_nodes=True))
    assert isinstance(decision, NewGeneration)
    assert (decision.reason, decision.excluded_nodes, decision.charged) == ("NodeUnfit", (1,), True)


def test_every_unfit_node_is_left_out_at_once() -> None:
    decision = decide(Ending((exited(0, 80), exited(1, 92), exited(2, 80)), None), a_budget(replaces_nodes=True))
    assert isinstance(decision, NewGeneration)
    assert decision.excluded_nodes == (0, 2)


def test_unfit_nodes_without_a_restart_left_are_a_node_fault() -> None:
    decision = decide(Ending((exited(0, 80),), None), a_budget(used=2, replaces_nodes=True))
    assert isinstance(decision, Finish)
    assert decision.exit_code == 93


@pytest.mark.parametrize(
    ("cause", "exit_code"),
    [
        (StopCause.REQUESTED, 83),
        (StopCause.DEADLINE, 83),
        (StopCause.START_DEADLINE, 83),
        (StopCause.INTERRUPTED, 84),
    ],
)
def test_a_gang_taken_down_ends_with_the_reason_for_it_whatever_its_agents_say(
    cause: StopCause, exit_code: int
) -> None:  # fmt: skip
    decision = decide(Ending((exited(0, 90), exited(1, signal=KILLED, by_us=True)), None, cause), a_budget())
    assert isinstance(decision, Finish)
    assert (decision.exit_code, decision.reason) == (exit_code, cause.value)


def test_a_gang_that_had_succeeded_before_the_stop_reached_it_has_succeeded() -> None:
    decision = decide(Ending((exited(0, 0), exited(1, 0)), None, StopCause.REQUESTED), a_budget())
    assert decision.exit_code == 0


def test_a_silent_agent_0_counts_as_lost() -> None:
    decision = decide(Ending((exited(0, signal=KILLED, by_us=True),), None, StopCause.SILENT), a_budget())
    assert isinstance(decision, NewGeneration)
    assert (decision.reason, decision.charged) == ("AgentSilent", True)


def test_the_first_failing_rank_is_named_with_what_it_said_last() -> None:
    failure = a_failure(rank=3, node_rank=1, exit_code=7, last_lines=("Traceback", "ValueError: bad", ""))
    state = a_state(RunState.FAILED, exit_code=90, reason="WorkerFailed", attempts=(an_attempt(failure=failure),))
    decision = decide(Ending((exited(0, 90), exited(1, 90)), state), a_budget(used=2))
    assert decision.seen == 'rank 3 on node 1 exited with code 7 (last line: "ValueError: bad"); 2 of 2 restarts used'


def test_a_lost_guard_is_named_as_such() -> None:
    failure = a_failure(FailureKind.GUARD_LOST, node_rank=1, message="the guard of node 1 was killed by SIGKILL")
    state = a_state(RunState.FAILED, exit_code=92, attempts=(an_attempt(failure=failure),))
    decision = decide(Ending((exited(0, 92), exited(1, 92)), state), a_budget())
    assert isinstance(decision, NewGeneration)
    assert decision.reason == "GuardLost"


def test_an_older_attempts_failure_is_not_taken_for_the_verdicts_cause() -> None:
    state = a_state(RunState.RUNNING, attempts=(an_attempt(failure=a_failure(rank=0, exit_code=7)),))
    decision = decide(Ending((exited(0, 78), exited(1, 92)), state), a_budget())
    assert decision.seen == "the agent exited with code 78"


def test_a_command_that_cannot_start_is_told_in_the_guards_words() -> None:
    failure = a_failure(FailureKind.START_FAILED, rank=0, node_rank=0, message="cannot start 'nope': not found")
    state = a_state(RunState.FAILED, exit_code=90, reason="StartFailed", attempts=(an_attempt(failure=failure),))
    decision = decide(Ending((exited(0, 90), exited(1, 90)), state), a_budget())
    assert isinstance(decision, Finish)
    assert (decision.reason, decision.seen) == ("StartFailed", "cannot start 'nope': not found; 0 of 2 restarts used")
    assert decision.fix == "correct launch.command: a program on PATH or a path relative to launch.workdir"


def test_no_progress_is_told_in_agent_0s_words() -> None:
    text = "rank 0 exited with code 7; 3 attempts in a row got no further than step 50"
    attempts = (an_attempt(failure=a_failure(rank=0, exit_code=7)),)
    state = a_state(RunState.FAILED, exit_code=94, reason="NoProgress", message=text, attempts=attempts)
    assert decide(Ending((exited(0, 94), exited(1, 94)), state), a_budget()).seen == text


def test_a_run_that_used_up_its_time_says_which_limit_to_raise() -> None:
    state = a_state(RunState.STOPPED, exit_code=83, reason="RunDeadline", message="the ranks have been running for 1h")
    decision = decide(Ending((exited(0, 83), exited(1, 83)), state), a_budget())
    assert decision == Finish(83, "RunDeadline", "the ranks have been running for 1h", "raise launch.limits.run")


def test_an_error_that_became_a_verdict_is_told_with_its_reason_once() -> None:
    text = "NothingToResume: x/v1 has checkpoints, but none can be resumed from"
    state = a_state(RunState.FAILED, exit_code=96, reason="NothingToResume", message=text)
    decision = decide(Ending((exited(0, 96),), state), a_budget())
    assert (decision.reason, decision.seen) == ("NothingToResume", "x/v1 has checkpoints, but none can be resumed from")


def test_failed_node_checks_are_told_as_agent_0_summed_them_up() -> None:
    text = "nodes 0, 1: check memory is fail: 1 GiB, expected 2 GiB; ask for less"
    state = a_state(RunState.FAILED, exit_code=80, reason="ChecksFailed", message=text)
    decision = decide(Ending((exited(0, 80), exited(1, 80)), state), a_budget())
    assert decision == Finish(81, "ChecksFailed", text, "all nodes are this machine: there is no other to try")
