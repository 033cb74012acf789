"""Whole gangs of real processes: what fails, hangs, floods or is killed, and what the run makes of it."""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from components.contracts.checks import CheckReport
from components.contracts.gang import AcceleratorRule
from components.contracts.layout import node_checks_key
from components.runtime.processes import descendants
from tests.components.agent.gang import Gang, all_gone, checkpoint, python, worker

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a gang's processes are kept together by Linux")

NewGang = Callable[..., Gang]


# --- success


def test_a_gang_trains_checkpoints_and_leaves_nothing_staged(new_gang: NewGang) -> None:
    gang = new_gang(worker(10), checkpoint=checkpoint(5)).start()
    assert gang.wait() == [0, 0]
    state = gang.final
    assert (state.state, state.num_joined, state.total_steps, state.exit_code) == ("Succeeded", 2, 10, 0)
    assert [view.step for view in state.steps] == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    assert [(view.checkpoint, view.state, view.level) for view in state.checkpoints] == [
        ("step-5-term-1", "verified", "digests"),
        ("step-10-term-1", "verified", "digests"),
    ]
    assert gang.history.checkpoints["step-10-term-1"].metrics == {"loss": 0.1}
    assert gang.messages(1, 1) == ["rank 1 starts at step 0", "rank 1 is done"]
    assert list((gang.folder / "g0/node-0/attempt-0/checkpoints").iterdir()) == []


def test_a_verification_that_hangs_does_not_hold_the_gang(new_gang: NewGang) -> None:
    rule = checkpoint(5).model_copy(update={"verify_timeout_seconds": 3.0})
    gang = new_gang(worker(5), checkpoint=rule).start()

    def verification() -> int | None:
        for pid in descendants(gang.agents[0].pid):
            with contextlib.suppress(OSError):
                if b"components.verify" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    return pid
        return None

    os.kill(gang.until(verification, "a verification"), signal.SIGSTOP)
    assert gang.wait() == [0, 0]
    (view,) = gang.final.checkpoints
    assert view.state == "committed"
    assert view.reason == "verification did not run: verify took longer than verify.timeout, 3s"


def test_every_line_of_a_rank_says_whose_it_is(new_gang: NewGang) -> None:
    gang = new_gang(python("print('hello')"), num_nodes=1).start()
    assert gang.wait() == [0]
    (line,) = gang.log(0, 0)
    assert {key: line[key] for key in ("experiment", "workflow", "task", "node_rank", "rank", "stream", "level")} == {
        "experiment": "toy", "workflow": "toy-bcdfg", "task": "launch", "node_rank": 0, "rank": 0, "stream": "stdout",
        "level": "info",
    }  # fmt: skip


def test_without_checkpoints_there_is_no_ledger(new_gang: NewGang) -> None:
    gang = new_gang(worker(2)).start()
    assert gang.wait() == [0, 0]
    assert gang.final.attempts[0].term == 0
    assert list(gang.store.list("checkpoints")) == []


def test_with_all_writers_every_node_publishes_its_own_files(new_gang: NewGang) -> None:
    gang = new_gang(worker(4, writers="all"), checkpoint=checkpoint(2, "all"), nproc_per_node=2).start()
    assert gang.wait() == [0, 0]
    entry = gang.history.checkpoints["step-4-term-1"]
    names = {Path(info.key).name for info in gang.store.list(entry.folder)}
    assert {"rank-0.json", "rank-1.json", "rank-2.json", "rank-3.json", "state.json", "MANIFEST.json"} <= names
    assert (entry.status, entry.num_files) == ("verified", 5)


def test_a_folder_deeper_than_a_sockets_address_will_do(new_gang: NewGang, tmp_path: Path) -> None:
    gang = new_gang(worker(1), folder=tmp_path / ("deep" * 40)).start()
    assert gang.wait() == [0, 0]


# --- failures of ranks


def test_a_failing_rank_is_named_and_the_gang_resumes_from_its_verified_checkpoint(new_gang: NewGang) -> None:
    gang = new_gang(worker(12, fail="1:8", pace=0.05), checkpoint=checkpoint(3)).start()
    assert gang.wait() == [0, 0]
    first, second = gang.final.attempts
    assert first.failure is not None
    assert (first.failure.kind, first.failure.rank, first.failure.node_rank, first.failure.exit_code) == (
        "RankExit", 1, 1, 7,
    )  # fmt: skip
    assert first.failure.last_lines[-1] == "rank 1 fails at step 8"
    assert (second.term, second.charged, second.resumed_from, second.resumed_step) == (2, True, "step-6-term-1", 6)
    assert gang.messages(0, 0, attempt=1)[0] == "rank 0 starts at step 6"
    assert gang.final.restarts_used == 1
    assert [view.step for view in gang.final.steps] == list(range(1, 13))
    assert [begin.source for begin in gang.history.begins] == [None, "step-6-term-1"]


def test_who_loses_its_peer_is_not_blamed_though_the_peer_takes_longer_to_die(new_gang: NewGang) -> None:
    program = python("""if True:
        import os, socket, sys, time
        address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        if os.environ["RANK"] == "0":
            with socket.create_server(address) as server:
                server.accept()[0].recv(1)
            sys.exit("a peer is gone")
        while True:
            try:
                peer = socket.create_connection(address)
                break
            except OSError:
                time.sleep(0.02)
        peer.close()
        time.sleep(0.2)  # an interpreter, or the kernel, cleans up
        os._exit(3)
    """)
    gang = new_gang(program, max_restarts=0).start()
    assert gang.wait() == [90, 90]
    failure = gang.final.attempts[0].failure
    assert failure is not None
    assert (failure.rank, failure.node_rank, failure.exit_code) == (1, 1, 3)
    assert failure.message == f"rank 1 exited with code 3; {failure.also}"
    assert failure.also is not None
    assert failure.also.startswith("rank 0 exited with code 1 ")


def test_a_killed_rank_takes_down_peers_that_ignore_sigterm(new_gang: NewGang) -> None:
    stubborn = python("import signal, time\nsignal.signal(15, signal.SIG_IGN)\nprint('up', flush=True)\ntime.sleep(60)")
    gang = new_gang(stubborn, max_restarts=0).start()
    victim, peer = gang.pid_of_rank(0), gang.pid_of_rank(1)
    gang.until(lambda: gang.messages(1, 1), "rank 1 talking")
    os.kill(victim, signal.SIGKILL)
    assert all_gone({peer})
    assert gang.wait() == [90, 90]
    failure = gang.final.attempts[0].failure
    assert failure is not None
    assert (failure.rank, failure.signal) == (0, "SIGKILL")


def test_without_a_restart_left_the_gang_fails_for_good(new_gang: NewGang) -> None:
    gang = new_gang(worker(5, fail="0:2", times=9), max_restarts=1).start()
    assert gang.wait() == [90, 90]
    assert gang.final.reason == "WorkerFailed"
    assert gang.final.message == "rank 0 exited with code 7; 1 of 1 restarts used"
    assert [attempt.charged for attempt in gang.final.attempts] == [False, True]


def test_a_command_that_exits_at_once_is_told_with_its_last_words(new_gang: NewGang) -> None:
    gang = new_gang(python("raise SystemExit('no GPU here')"), max_restarts=0).start()
    assert gang.wait() == [90, 90]
    failure = gang.final.attempts[0].failure
    assert failure is not None
    assert failure.last_lines == ("no GPU here",)


def test_a_command_the_kernel_refuses_after_the_checks_is_not_tried_again(new_gang: NewGang, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF and nothing behind it")
    program.chmod(0o755)
    gang = new_gang([str(program)]).start()
    assert gang.wait() == [90, 90]
    assert gang.final.reason == "StartFailed"
    assert "Exec format error" in gang.final.message


def test_a_hanging_gang_is_restarted_and_then_finishes(new_gang: NewGang) -> None:
    limits = {"no_progress_seconds": 1.0}
    gang = new_gang(worker(6, hang="1:4"), checkpoint=checkpoint(3), limits=limits).start()
    assert gang.wait() == [0, 0]
    failure = gang.final.attempts[0].failure
    assert failure is not None
    assert failure.kind == "Hang"
    assert gang.final.attempts[1].resumed_step == 3


def test_a_hang_without_a_restart_left_is_91(new_gang: NewGang) -> None:
    gang = new_gang(worker(6, hang="1:4"), limits={"no_progress_seconds": 1.0}, max_restarts=0).start()
    assert gang.wait() == [91, 91]
    assert "furthest behind: rank 1" in gang.final.message


def test_a_silent_program_is_warned_about_and_left_to_finish(new_gang: NewGang) -> None:
    gang = new_gang(python("import time; time.sleep(1.5)"), limits={"no_progress_seconds": 0.5}, num_nodes=1).start()
    assert gang.wait() == [0]
    assert any("no output and no CPU time for 500ms" in message for message in gang.messages())


def test_a_taken_port_is_an_uncharged_restart(new_gang: NewGang) -> None:
    # The first attempt finds somebody else at its port, as rank 0 of PyTorch would.
    code = (
        "import os, sys\nif os.environ['TORCHELASTIC_RESTART_COUNT'] == '0':\n"
        " sys.exit('port: ' + os.environ['MASTER_PORT'] + ', name: EADDRINUSE, message: address already in use')"
    )
    gang = new_gang(python(code), max_restarts=0, num_nodes=1).start()
    assert gang.wait() == [0]
    first, second = gang.final.attempts
    assert first.failure is not None
    assert (first.failure.kind, second.charged) == ("PortTaken", False)


def test_attempts_that_stand_still_end_the_run(new_gang: NewGang) -> None:
    gang = new_gang(worker(6, fail="0:3", times=99), max_restarts=9, num_nodes=1).start()
    assert gang.wait() == [94]
    assert len(gang.final.attempts) == 3


# --- output


def test_binary_output_is_shown_safely_and_completely(new_gang: NewGang) -> None:
    code = (
        "import os; os.write(1, b'a\\x00b\\xff\\n' + '\\x1b[31m{{x}} \\u202e \\u00e9\\n'.encode());"
        "os.write(1, b'one\\rtwo\\r\\nno end')"
    )
    gang = new_gang(python(code), num_nodes=1).start()
    assert gang.wait() == [0]
    assert gang.messages(0, 0) == ["a\\x00b\\xff", "\\x1b[31m{{x}} \\u202e é", "one", "two", "no end"]


def test_a_flood_of_output_is_kept_whole_and_disturbs_nobody(new_gang: NewGang) -> None:
    code = "import sys\nfor i in range(200_000): sys.stdout.write(f'line {i:06d} ' + 80 * 'x' + '\\n')"
    gang = new_gang(python(code), num_nodes=1).start()
    assert gang.wait() == [0]
    lines = gang.messages(0, 0)
    assert len(lines) == 200_000
    assert lines[123_456].startswith("line 123456 x")


def test_a_program_that_logs_json_keeps_its_level_but_not_its_claims(new_gang: NewGang) -> None:
    code = 'import json; print(json.dumps({"level": "warning", "message": "careful", "rank": 99, "lr": 0.1}))'
    gang = new_gang(python(code), num_nodes=1).start()
    assert gang.wait() == [0]
    (line,) = gang.log(0, 0)
    assert (line["level"], line["message"], line["rank"], line["lr"]) == ("warning", "careful", 0, 0.1)


# --- stop


def test_a_stop_lets_the_ranks_save_and_that_checkpoint_counts(new_gang: NewGang) -> None:
    gang = new_gang(worker(10_000), checkpoint=checkpoint(1000), limits={"stop_seconds": 30.0}).start()
    gang.until_step(5)
    gang.stop()
    gang.stop()
    assert gang.wait() == [83, 83]
    assert (gang.final.state, gang.final.reason) == ("Stopped", "StopRequested")
    (entry,) = gang.history.checkpoints.values()
    assert entry.status == "verified"
    assert entry.step >= 5
    assert gang.messages(0, 0)[-1] == f"rank 0 stops at step {entry.step}"


def test_ranks_that_ignore_a_stop_are_killed_at_the_limit(new_gang: NewGang) -> None:
    stubborn = python("import signal, time\nsignal.signal(15, signal.SIG_IGN)\nprint('up', flush=True)\ntime.sleep(60)")
    gang = new_gang(stubborn, limits={"stop_seconds": 1.0}).start()
    gang.until(lambda: gang.messages(0, 0) and gang.messages(1, 1), "both up")
    begin = time.monotonic()
    gang.stop()
    assert gang.wait() == [83, 83]
    assert time.monotonic() - begin > 1  # not before; and they would have gone on for a minute


def test_the_run_limit_stops_the_gang(new_gang: NewGang) -> None:
    gang = new_gang(worker(10_000), checkpoint=checkpoint(1000), limits={"run_seconds": 1.0}).start()
    assert gang.wait() == [83, 83]
    assert gang.final.reason == "RunDeadline"
    assert len(gang.history.checkpoints) == 1


def test_sigterm_before_everybody_joined_ends_the_agent(new_gang: NewGang) -> None:
    gang = new_gang(worker(5), coordinator_file="/nonexistent/never-announced", num_nodes=2)
    gang.spec = gang.spec.model_copy(update={"coordinator_file": str(gang.folder / "c")})
    gang.start(secrets_of={1: b"x" * 32})  # node 1 never gets in
    time.sleep(0.7)
    gang.stop()
    assert gang.wait() == [83, 83]


def test_sigterm_to_a_guard_stops_the_whole_gang(new_gang: NewGang) -> None:
    gang = new_gang(worker(10_000)).start()
    gang.until_step(2)
    os.kill(gang.guard_of(1), signal.SIGTERM)
    assert gang.wait() == [83, 83]
    assert gang.messages(0, 0)[-1].startswith("rank 0 stops at step")


# --- kills


@pytest.mark.parametrize(("node_rank", "number"), [(0, signal.SIGKILL), (1, 40)])  # 40 has no name
def test_a_killed_guard_ends_the_gang_with_92_and_no_orphan(new_gang: NewGang, node_rank: int, number: int) -> None:
    family = ["sh", "-c", "sleep 300 & (setsid sleep 301 &) ; sleep 302"]
    gang = new_gang(family).start()
    gang.pid_of_rank(1)
    time.sleep(0.2)
    everything = gang.processes()
    os.kill(gang.guard_of(node_rank), number)
    assert gang.wait() == [92, 92]
    assert gang.final.reason == "GuardLost"
    assert all_gone(everything)


@pytest.mark.parametrize("node_rank", [0, 1])
def test_a_killed_agent_ends_the_gang_with_92_and_no_orphan(new_gang: NewGang, node_rank: int) -> None:
    family = ["sh", "-c", "sleep 300 & (setsid sleep 301 &) ; sleep 302"]
    gang = new_gang(family).start()
    gang.pid_of_rank(1)
    time.sleep(0.2)
    everything = gang.processes()
    gang.agents[node_rank].kill()
    codes = gang.wait()
    assert codes[node_rank] == -9
    assert codes[1 - node_rank] == 92
    assert all_gone(everything)


def test_a_stopped_guard_cannot_keep_the_gang_alive(new_gang: NewGang) -> None:
    gang = new_gang(["sleep", "300"], max_restarts=0).start()
    victim = gang.pid_of_rank(1)
    everything = gang.processes()
    os.kill(gang.guard_of(0), signal.SIGSTOP)
    os.kill(victim, signal.SIGKILL)
    codes = gang.wait()
    assert codes in ([92, 92], [90, 90])
    assert all_gone(everything)


def test_a_silent_agent_is_given_up(new_gang: NewGang) -> None:
    gang = new_gang(["sleep", "300"]).start()
    gang.pid_of_rank(1)
    os.kill(gang.agents[1].pid, signal.SIGSTOP)
    assert gang.agents[0].wait(60) == 92
    assert "silent for 15 s" in gang.final.message
    os.kill(gang.agents[1].pid, signal.SIGCONT)
    assert gang.agents[1].wait(10) == 92


def test_children_of_ranks_are_gone_after_a_restart(new_gang: NewGang) -> None:
    # As a DataLoader's workers: children of the rank, in its session, that ignore SIGTERM.
    code = (
        "import os, signal, sys, time\nfor _ in range(2):\n if os.fork() == 0:\n"
        "  signal.signal(15, signal.SIG_IGN); print(os.getpid(), flush=True); time.sleep(300)\n"
        "time.sleep(0.5)\nsys.exit(3 if os.environ['TORCHELASTIC_RESTART_COUNT'] == '0' else 0)"
    )
    gang = new_gang(python(code), num_nodes=1).start()
    assert gang.wait() == [0]
    pids = {int(pid) for attempt in (0, 1) for pid in gang.messages(0, 0, attempt)}
    assert len(pids) == 4
    assert all_gone(pids, 0.1)


# --- ledger


def test_a_last_checkpoint_that_cannot_be_stored_is_no_success_and_not_lost(new_gang: NewGang) -> None:
    gang = new_gang(worker(4), checkpoint=checkpoint(2))
    blocked = gang.folder / "storage/checkpoints/toy/v1/d-1"
    blocked.parent.mkdir(parents=True)
    blocked.write_text("a file where a folder should be")
    gang.start()
    assert gang.wait() == [81, 81]
    assert gang.final.reason == "StorageRefused"
    assert [(view.step, view.state) for view in gang.final.checkpoints] == [(2, "abandoned"), (4, "abandoned")]
    staged = gang.folder / "g0/node-0/attempt-0/checkpoints"
    assert [entry.name for entry in staged.iterdir()] == ["step-4"]


def test_a_checkpoint_that_is_no_checkpoint_is_the_programs_fault(new_gang: NewGang) -> None:
    code = (
        "import os\nfolder = os.environ['ARGOSY_CHECKPOINTS'] + '/step-1'\nos.mkdir(folder)\n"
        "os.symlink('/etc/passwd', folder + '/weights')\nopen(folder + '/READY', 'w')"
    )
    gang = new_gang(python(code), checkpoint=checkpoint(1), num_nodes=1).start()
    assert gang.wait() == [78]
    assert "not a regular file" in gang.final.message


def test_a_gang_whose_term_is_over_stops_and_commits_nothing(new_gang: NewGang) -> None:
    from components.ledger.ledger import begin

    gang = new_gang(worker(10_000, pace=0.05), checkpoint=checkpoint(20)).start()
    gang.until_step(2)
    begin(gang.ledger, run="toy-bcdfg", generation=1, attempt=0, reason="AgentLost", charged=True, source=None)
    assert gang.wait() == [83, 83]
    assert gang.final.reason == "Fenced"
    assert gang.history.checkpoints == {}


def test_a_run_without_a_claim_starts_nothing(new_gang: NewGang) -> None:
    from components.ledger.ledger import release

    gang = new_gang(worker(3), checkpoint=checkpoint(1)).start()
    release(gang.ledger, run="toy-bcdfg", outcome="Failed")
    codes = gang.wait()
    assert codes == [83, 83]
    assert gang.final.reason == "ClaimLost"


def test_a_second_generation_continues_from_the_first(new_gang: NewGang) -> None:
    first = new_gang(worker(1000), checkpoint=checkpoint(5)).start()
    first.until(lambda: any(entry.level for entry in first.history.checkpoints.values()), "verified")
    first.agents[1].kill()
    assert first.wait()[0] == 92
    second = new_gang(
        worker(1), checkpoint=checkpoint(5), generation=1, begin_reason="AgentLost", begin_charged=True
    ).start()
    assert second.wait() == [0, 0]
    (attempt,) = second.final.attempts
    assert attempt.charged
    assert attempt.resumed_step >= 5
    assert second.final.restarts_used == 1


# --- start


def test_torchrun_like_programs_start_the_ranks_of_a_node_themselves(new_gang: NewGang) -> None:
    code = (
        "import json, os\nnames = ('PET_NNODES', 'PET_NPROC_PER_NODE', 'PET_NODE_RANK', 'PET_MASTER_ADDR')\n"
        "print([os.environ[name] for name in names], 'RANK' in os.environ)\n"
        "for local in range(2):\n rank = 2 * int(os.environ['PET_NODE_RANK']) + local\n"
        " with open(os.environ['ARGOSY_PROGRESS'] + f'.{rank}', 'a') as file:\n"
        "  print(json.dumps({'step': 7 + rank}), file=file)"
    )
    gang = new_gang(python(code), start="node", nproc_per_node=2).start()
    assert gang.wait() == [0, 0]
    assert gang.messages(1, 2) == ["['2', '2', '1', '127.0.0.1'] False"]
    assert [view.step for view in gang.final.ranks] == [7, 8, 9, 10]


def test_an_agent_with_another_secret_never_gets_in(new_gang: NewGang) -> None:
    gang = new_gang(worker(3), limits={"start_seconds": 2.0}).start(secrets_of={1: b"wrong" * 10})
    assert gang.wait() == [83, 92]
    assert gang.final.message == "node 1 did not join within 2s"
    assert any("refused: a wrong secret" in message for message in gang.messages())


def test_garbage_on_the_port_changes_nothing(new_gang: NewGang) -> None:
    import socket

    gang = new_gang(worker(30)).start()
    address = gang.until(
        lambda: Path(gang.spec.coordinator_file).read_text() if Path(gang.spec.coordinator_file).exists() else None,
        "an address",
    )
    host, port = address.strip().split(":")
    for noise in (
        b"GET / HTTP/1.1\r\n\r\n",
        bytes(range(256)) * 1000,
        b"",
        b"1 " + b"a" * 32 + b" " + b"b" * 64 + b"\n",
    ):
        with socket.create_connection((host, int(port))) as stranger:
            try:
                stranger.sendall(noise)
            except OSError:
                continue
    assert gang.wait() == [0, 0]


def test_an_unfit_node_starts_nothing(new_gang: NewGang) -> None:
    gang = new_gang(worker(3), accelerator=AcceleratorRule(model="NVIDIA-NOSUCH-9000")).start()
    codes = gang.wait()
    assert codes == [80, 80]
    assert gang.final.reason == "ChecksFailed"
    assert gang.final.attempts == ()
    report = CheckReport.from_bytes(gang.store.read(node_checks_key("toy-bcdfg", generation=0, node_rank=1)), where="")
    assert any(result.name == "reach" and "answers within" in result.measured for result in report.results)
    assert any(result.name == "pair" and "Gbit/s" in result.measured for result in report.results)
    assert report.blocking[0].name == "accelerators"
