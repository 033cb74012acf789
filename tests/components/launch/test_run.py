"""The whole launch stage against agents that keep to the wire protocol: exit codes, outputs, accounts, no leftovers."""

import signal
import sys
import time

import pytest

from components.contracts.gang import GangLimits
from components.ledger.ledger import Ledger
from tests.components.launch.stage import LIMITS, Place, a_spec, handles, plan, wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the local gang needs Linux")


def test_a_gang_that_succeeds_gives_the_outputs_and_frees_the_experiment(place: Place) -> None:
    stage = place.start(a_spec(env=plan({"0": "exit:0"})))
    assert stage.wait() == 0
    assert stage.outputs == {
        "checkpoint": "", "step": "5", "resume_step": "0", "restarts": "0", "outcome": "succeeded",
    }  # fmt: skip
    assert (place.state.state, place.state.exit_code) == ("Succeeded", 0)
    assert Ledger(place.store, "exp", "v1").state().claim is None
    assert place.processes() == []


def test_a_worker_that_failed_for_good_is_named_with_its_last_line(place: Place) -> None:
    stage = place.start(a_spec(env=plan({"0": "exit:90"})))
    assert stage.wait() == 90
    assert stage.last_words == (
        'WorkerFailed: rank 0 on node 0 exited with code 7 (last line: "boom"); 0 of 2 restarts used; '
        "read that rank's log and mend the program"
    )
    assert place.state.state == "Failed"
    assert "boom" in [line["message"] for line in stage.log if line.get("rank") == 0]


def test_a_killed_agent_costs_a_restart_and_the_next_generation_finishes(place: Place) -> None:
    stage = place.start(a_spec(env=plan({"1": "kill:SIGKILL", "0": "forever"}, {"0": "exit:0"})))
    assert stage.wait() == 0
    assert stage.outputs["restarts"] == "1"
    assert [(view.begin_reason, view.charged, view.exit_code) for view in place.state.generations] == [
        ("Start", False, 92), ("AgentLost", True, 0),
    ]  # fmt: skip
    assert place.state.generations[0].message == "the agent of node 1 was killed by SIGKILL"


def test_agents_that_keep_dying_use_the_budget_up(place: Place) -> None:
    stage = place.start(a_spec(max_restarts=1, env=plan({"0": "kill:SIGKILL"}, {"0": "kill:40"})))  # 40 has no name
    assert stage.wait() == 92
    assert stage.last_words.startswith("AgentLost: the agent of node 0 was killed by signal 40; 1 of 1 restarts used")
    assert len(place.state.generations) == 2


def test_a_stop_stops_the_gang_and_repeated_sigterm_changes_nothing(place: Place) -> None:
    stage = place.start(a_spec(env=plan({"0": "forever"})))
    place.wait_for_state("Running")
    place.stop_file.write_text("{}")
    for _ in range(3):
        stage.signal(signal.SIGTERM)
        time.sleep(0.02)
    assert stage.wait() == 83
    assert stage.last_words.startswith("StopRequested: a stop was requested; the gang is stopped")
    assert place.state.state == "Stopped"
    assert place.processes() == []
    assert Ledger(place.store, "exp", "v1").state().claim is None


def test_agents_that_ignore_a_stop_are_removed_when_limits_stop_is_over(place: Place) -> None:
    stage = place.start(a_spec(env=plan({"0": "stubborn", "1": "stubborn"}), limits=_limits(stop_seconds=0.5)))
    place.wait_for_state("Running")
    place.stop_file.write_text("{}")
    stage.signal(signal.SIGTERM)
    assert stage.wait() == 83
    assert place.processes() == []


def test_a_sigterm_without_intent_stops_the_gang_and_keeps_the_experiment_for_the_next_attempt(place: Place) -> None:
    stage = place.start(a_spec(env=plan({"0": "forever"}, {"0": "exit:0"})))
    place.wait_for_state("Running")
    stage.signal(signal.SIGTERM)
    assert stage.wait() == 84
    claim = Ledger(place.store, "exp", "v1").state().claim
    assert claim is not None
    assert claim.run == "exp-abcde"
    again = place.start(a_spec(env=plan({"0": "forever"}, {"0": "exit:0"})))
    assert again.wait() == 0
    assert [(view.begin_reason, view.charged) for view in place.state.generations] == [
        ("Start", False), ("LauncherInterrupted", False),
    ]  # fmt: skip
    assert again.outputs["restarts"] == "0"


def test_a_sigterm_at_the_stages_own_deadline_is_a_stop(place: Place) -> None:
    stage = place.start(a_spec(env=plan({"0": "forever"}), timeout_seconds=2.5))
    place.wait_for_state("Running")
    time.sleep(1.0)
    stage.signal(signal.SIGTERM)
    assert stage.wait() == 83
    assert stage.last_words.startswith("StageDeadline: ")


def test_a_gang_that_does_not_start_in_time_is_removed_and_what_was_missing_is_said(place: Place) -> None:
    stage = place.start(a_spec(env=plan({"0": "never", "1": "forever"}), limits=_limits(start_seconds=0.5)))
    assert stage.wait() == 83
    assert stage.last_words == (
        "StartDeadline: not all ranks were running 500ms after the gang was created: 2 of 2 nodes joined; "
        "nodes 0, 1: the agent runs but has not finished its checks; mend what is missing, or raise launch.limits.start"
    )
    assert place.processes() == []


def test_a_killed_launcher_leaves_nothing_behind_and_the_next_one_continues_uncharged(place: Place) -> None:
    spec = a_spec(env=plan({"0": "daemon", "1": "stubborn"}, {"0": "exit:0"}))
    stage = place.start(spec)
    place.wait_for_state("Running")
    wait_until(lambda: len(place.processes()) == 3, "two agents and the daemon run")
    stage.signal(signal.SIGKILL)
    assert stage.wait() == -9
    wait_until(lambda: len(place.processes()) <= 1, "the agents died with the launcher")
    again = place.start(spec)
    assert again.wait() == 0
    assert place.processes() == []
    assert [(view.begin_reason, view.charged) for view in place.state.generations] == [
        ("Start", False), ("LauncherLost", False),
    ]  # fmt: skip


def test_launchers_killed_at_any_moment_of_their_start_cost_no_restart(place: Place) -> None:
    spec = a_spec(num_nodes=1, env=plan({"0": "exit:0:0.5"}))
    for delay in (0.1, 0.2, 0.3, 0.4, 0.5):
        stage = place.start(spec)
        time.sleep(delay)
        stage.signal(signal.SIGKILL)
        stage.wait()
    last = place.start(spec)
    assert last.wait() == 0
    assert last.outputs["restarts"] == "0"
    assert place.processes() == []
    assert [view.generation for view in place.state.generations] == list(range(len(place.state.generations)))


def test_what_escaped_the_session_is_killed_with_its_generation(place: Place) -> None:
    stage = place.start(a_spec(num_nodes=1, env=plan({"0": "daemon"})))
    wait_until(lambda: len(place.processes()) == 2, "the agent and the daemon run")
    place.stop_file.write_text("{}")
    stage.signal(signal.SIGTERM)
    assert stage.wait() == 83
    assert place.processes() == []


def test_a_second_run_of_the_same_experiment_is_refused_before_any_agent_starts(place: Place) -> None:
    first = place.start(a_spec(env=plan({"0": "forever"})))
    place.wait_for_state("Running")
    second = place.start(a_spec(env=plan({"0": "exit:0"})), run="exp-other")
    assert second.wait() == 78
    assert second.last_words.startswith("RunActive: run exp-abcde (pid ")
    assert not (second.folder / "gang").exists()
    assert first.process.poll() is None


def test_a_second_launcher_of_the_same_run_waits_and_leaves_the_first_alone(place: Place) -> None:
    spec = a_spec(env=plan({"0": "forever"}))
    first = place.start(spec)
    place.wait_for_state("Running")
    second = place.start(spec)
    wait_until(lambda: handles(second.process.pid, signal.SIGTERM), "the second launcher is up")
    second.signal(signal.SIGTERM)
    assert second.wait() == 84
    assert first.process.poll() is None
    assert len(place.processes()) == 2


def test_the_success_of_a_gang_whose_launcher_died_is_taken_over(place: Place) -> None:
    spec = a_spec(num_nodes=1, env=plan({"0": "exit:0:0.1"}, {"0": "exit:90"}))
    stage = place.start(spec)
    place.wait_for_state("Running")
    stage.signal(signal.SIGSTOP)
    place.wait_for_state("Succeeded")
    stage.signal(signal.SIGKILL)
    stage.wait()
    again = place.start(spec)
    assert again.wait() == 0
    assert len(place.state.generations) == 1


def test_without_data_no_agent_starts(place: Place) -> None:
    place.store.delete("data/versions/data1/manifest.json")
    stage = place.start(a_spec())
    assert stage.wait() == 78
    assert "data/versions/data1/manifest.json does not exist; run the shard stage" in stage.last_words


def test_outside_the_local_engine_auto_finds_no_backend(place: Place) -> None:
    stage = place.start(a_spec(), ARGOSY_TARGET="kubernetes", KUBECONFIG="", KUBERNETES_SERVICE_HOST="")
    assert stage.wait() == 81
    assert stage.last_words.startswith("NoBackend: ")


def _limits(**changes: float) -> GangLimits:
    return LIMITS.model_copy(update=changes)


@pytest.mark.parametrize(("code", "reason"), [("", "NoCode"), ("c" * 64, "CodeMissing")])
def test_code_that_is_not_there_is_told_before_anything_is_claimed(place: Place, code: str, reason: str) -> None:
    stage = place.start(a_spec(ships_code=True, env=plan({"0": "exit:0"})), inputs={"code": code})
    assert stage.wait() == 78
    assert stage.last_words.startswith(f"{reason}: ")
    assert Ledger(place.store, "exp", "v1").state().seq == 0
