"""A gang whose agents and guards live in different containers of a pod ends as one of children and parents does."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from components.runtime.processes import become_subreaper
from tests.components.agent.gang import all_gone, checkpoint, python, worker
from tests.components.agent.pods import PodGang

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(sys.platform != "linux", reason="SO_PEERCRED and /proc are Linux's")]


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[Any]:
    become_subreaper()
    gangs: list[PodGang] = []

    def make(command: list[str], **changes: Any) -> PodGang:
        gangs.append(PodGang(tmp_path, command, **changes))
        return gangs[-1].start()

    yield make
    for gang in gangs:
        gang.close()


def test_a_gang_of_pods_trains_commits_and_every_pod_ends_with_the_verdict(pods: Any) -> None:
    gang = pods(worker(6), checkpoint=checkpoint(3))
    assert gang.wait() == [0, 0]
    assert gang.final.state == "Succeeded"
    assert [entry.step for entry in gang.history.newest_first("verified")] == [6, 3]


def test_ranks_live_in_the_programs_container_and_not_in_the_agents(pods: Any) -> None:
    look = (
        "import os; print(os.environ['IN_THE_PROGRAMS_CONTAINER'], os.environ['NODE_RANK'], "
        "'AWS_SECRET_ACCESS_KEY' in os.environ, os.path.basename(os.getcwd()))"
    )
    gang = pods(python(look), environ={"AWS_SECRET_ACCESS_KEY": "of the agent"})
    assert gang.wait() == [0, 0]
    assert gang.messages(1, rank=1) == ["yes 1 False pod-1"]


def test_a_failing_rank_is_restarted_in_place_and_then_fails_every_pod_with_its_code(pods: Any) -> None:
    gang = pods(worker(6, fail="1:3", times=9), max_restarts=1)
    assert gang.wait() == [90, 90]
    assert [attempt.failure.rank for attempt in gang.final.attempts] == [1, 1]


def test_a_deleted_pod_saves_its_work_and_stops_the_gang(pods: Any) -> None:
    gang = pods(worker(1000), checkpoint=checkpoint(500))
    gang.until_step(2)
    gang.pods[1].delete()
    assert gang.wait() == [83, 83]
    assert len(gang.history.newest_first("verified", "committed")) == 1


def test_a_killed_agent_takes_its_ranks_along_and_its_successor_starts_nothing(pods: Any) -> None:
    gang = pods(worker(1000))
    ranks = {gang.pid_of_rank(0), gang.pid_of_rank(1)}
    os.kill(gang.pods[1].agent.pid, signal.SIGKILL)
    gang.pods[1].agent.wait()
    gang.pods[1].agent = gang.pods[1].start_agent()
    assert gang.wait() == [92, 92]
    assert all_gone(ranks)
    assert "AgentRestarted" in (gang.pods[1].folder / "agent.out").read_text()


def test_an_agent_that_was_killed_before_its_guard_came_ends_the_pod_as_lost(pods: Any, tmp_path: Path) -> None:
    work = tmp_path / "pod-0" / "work"
    gang = pods(worker(1000), num_nodes=1)
    gang.until(lambda: (work / "agent-was-here").exists(), "an agent")
    gang.pods[0].agent.kill()
    gang.pods[0].agent.wait()
    gang.pods[0].agent = gang.pods[0].start_agent()
    assert gang.wait() == [92]


def test_a_killed_guard_is_noticed_and_the_other_pod_leaves(pods: Any) -> None:
    gang = pods(worker(1000))
    gang.pid_of_rank(1)
    gang.pods[0].program.kill()
    assert gang.wait() == [-9, 92]


def test_a_program_that_is_not_in_the_users_image_is_found_out_before_any_rank_starts(pods: Any) -> None:
    gang = pods(["no-such-program"])
    assert gang.wait() == [78, 78]
    assert "there is no executable 'no-such-program'" in gang.final.message


def test_an_agent_that_cannot_begin_ends_its_pod_with_the_reason(pods: Any) -> None:
    gang = pods(worker(3), num_nodes=1, storage="nowhere://bucket")
    assert gang.wait() == [78]
