"""Decisions that only pods ask for: leave a gang alone, wait for a lost node, read the Workflow's mind."""

from datetime import UTC, datetime
from typing import Any

import pytest

from components.contracts.gang import GangLimits
from components.contracts.pods import LostNodeRule
from components.errors import ExitCode
from components.launch.backend import AgentPhase, AgentStatus
from components.launch.failure_policy import Finish, StopCause
from components.launch.gang import Action, Observation, RemoveGang, Stopping, Wait, next_action
from components.launch.history import History, nodes_to_avoid
from components.launch.storage_variables import handed_on
from components.launch.workflow_intent import cause_of
from tests.components.launch.values import a_budget, a_generation, a_state, exited, running

LIMITS = GangLimits(start_seconds=100.0, run_seconds=1000.0, no_progress_seconds=50.0, stop_seconds=30.0)
NOW = datetime(2026, 11, 29, 12, 0, 0, tzinfo=UTC)


def lost(node_rank: int) -> AgentStatus:
    return AgentStatus(node_rank, AgentPhase.RUNNING, where="node-b", node_lost=True)


def act(*agents: AgentStatus, policy: Any = "force_after", **about: Any) -> Action:
    seen = Observation(
        agents, a_state(), since_creation=500.0, since_news=1.0, since_first_exit=about.pop("first_exit", None),
        since_node_lost=about.pop("node_lost", None),
    )  # fmt: skip
    values: dict[str, Any] = {"intent": None, "stopping": None, **about}
    return next_action(
        seen, limits=LIMITS, budget=a_budget(replaces_nodes=True), flush_seconds=5.0, survives_launcher=True,
        lost_node=LostNodeRule(policy=policy, after_seconds=60.0), **values,
    )  # fmt: skip


def test_a_sigterm_without_intent_leaves_the_gang_alone() -> None:
    decision = act(running(0), running(1), intent=StopCause.INTERRUPTED)
    assert isinstance(decision, Finish)
    assert decision.exit_code is ExitCode.INTERRUPTED


def test_survivors_of_a_lost_node_are_removed_and_its_own_pod_waited_for() -> None:
    agents = (exited(0, 92), lost(1))
    assert act(*agents, first_exit=9.0, node_lost=20.0) == Wait()
    assert act(*agents, first_exit=10.0, node_lost=20.0) == RemoveGang(StopCause.LEFT_BEHIND)


def test_a_gang_that_is_lost_as_a_whole_is_removed_when_the_limit_is_over_unless_it_shall_be_waited_for() -> None:
    assert act(lost(0), lost(1), node_lost=59.0) == Wait()
    assert act(lost(0), lost(1), node_lost=60.0) == RemoveGang(StopCause.NODE_LOST)
    assert act(lost(0), lost(1), node_lost=9999.0, policy="wait") == Wait()


def test_with_fail_the_run_ends_without_the_lost_nodes_word() -> None:
    decision = act(exited(0, 92), lost(1), first_exit=5.0, node_lost=60.0, policy="fail")
    assert isinstance(decision, Finish)
    assert (decision.exit_code, decision.reason) == (ExitCode.NODE_FAULT, "NodeLost")
    assert decision.seen == "node 1 (on node-b): its machine has not answered for 1m"


def test_a_stop_does_not_wait_for_a_lost_node() -> None:
    agents = (exited(0, 83), lost(1))
    assert act(*agents, first_exit=1.0, node_lost=5.0, stopping=Stopping(StopCause.REQUESTED, 34.0)) == Wait()
    decision = act(*agents, first_exit=1.0, node_lost=5.0, stopping=Stopping(StopCause.REQUESTED, 35.0))
    assert isinstance(decision, Finish)
    assert decision.exit_code is ExitCode.STOPPED


def test_a_lost_node_is_avoided_once_and_an_unfit_one_for_good() -> None:
    zero = a_generation(0, nodes=("a", "b"))
    assert nodes_to_avoid(History(generations=(zero,)), (1,)) == ("b",)
    after_loss = a_generation(1, nodes=("a", "c"), excluded_nodes=("b",), begin_reason="NodeLost")
    assert nodes_to_avoid(History(generations=(zero, after_loss)), (1,)) == ("c",)
    after_unfit = a_generation(1, nodes=("a", "c"), excluded_nodes=("b",), begin_reason="NodeUnfit")
    assert nodes_to_avoid(History(generations=(zero, after_unfit)), ()) == ("b",)


def test_the_agents_get_what_reaches_the_storage_and_nothing_that_only_this_pod_has() -> None:
    given = {
        "AWS_ACCESS_KEY_ID": "k", "AWS_ENDPOINT_URL_S3": "http://s3", "ARGOSY_S3_PATH_STYLE": "true", "PATH": "/bin",
        "AWS_WEB_IDENTITY_TOKEN_FILE": "/var/run/token", "AWS_CA_BUNDLE": "/argosy/ca/ca.crt", "HTTPS_PROXY": "p",
    }  # fmt: skip
    assert sorted(handed_on(given)) == [
        "ARGOSY_S3_PATH_STYLE", "AWS_ACCESS_KEY_ID", "AWS_ENDPOINT_URL_S3", "HTTPS_PROXY",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("metadata", "spec", "cause"),
    [
        ({}, {}, None),
        ({}, {"shutdown": "Stop"}, StopCause.REQUESTED),
        ({}, {"shutdown": "Terminate"}, StopCause.REQUESTED),
        ({"deletionTimestamp": "2026-11-29T12:00:00Z"}, {}, StopCause.REQUESTED),
        ({"annotations": {"argosy.dev/stop": "{}"}}, {}, StopCause.REQUESTED),
        ({"uid": "another"}, {}, StopCause.REQUESTED),
        ({}, {"activeDeadlineSeconds": 600}, StopCause.DEADLINE),
        ({}, {"activeDeadlineSeconds": 6000}, None),
    ],
)
def test_the_workflow_says_why_its_launcher_is_told_to_go(
    metadata: dict[str, Any], spec: dict[str, Any], cause: StopCause | None
) -> None:
    status = {"startedAt": "2026-11-29T11:50:00Z"}
    workflow = {"metadata": {"uid": "w1", **metadata}, "spec": spec, "status": status}
    assert cause_of(workflow, uid="w1", now=NOW) == cause


def test_a_workflow_that_is_gone_was_deleted() -> None:
    assert cause_of(None, uid="w1", now=NOW) is StopCause.REQUESTED
