"""kill -9 of the engine, at any moment: nothing is left running, nothing finished is repeated, the run still ends."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from components.runtime.processes import is_alive
from infra.local.client import resume, start_engine
from infra.local.run_dir import CHECKOUT
from tests.infra.local.engine_process import until
from tests.infra.local.workflows import a_python, a_shell, a_task, a_workflow, retries


def test_nothing_outlives_a_killed_engine_not_even_daemons(engine):
    code = (
        "import os,subprocess,time\n"
        "subprocess.Popen(['sh','-c','sleep 62 & wait'],start_new_session=True)\n"
        "if os.fork()==0:\n os.setsid()\n if os.fork()==0: os.execvp('sleep',['sleep','62'])\n os._exit(0)\n"
        "time.sleep(62)\n"
    )
    run = engine(a_workflow([a_task("a")], [a_python("a", code)])).start()
    family = until(lambda: pids if len(pids := run.family()) >= 5 else None)
    run.kill()

    until(lambda: not any(is_alive(pid, None) for pid in family))
    assert not run.run_dir.engine_alive()


def test_resume_repeats_what_ran_uncharged_and_nothing_that_had_finished(engine):
    slow = "echo {{retries}}; test {{retries}} = 0 && sleep 63; test {{retries}} = 2"
    run = engine(
        a_workflow(
            [a_task("first"), a_task("slow", depends="first")],
            [a_shell("first", "echo once"), a_shell("slow", slow, **retries(1))],
        )
    ).start()
    run.until_running("slow")
    run.kill()

    assert run.state.phase == "Running"
    assert run.run("--resume") == 0
    assert len(run.state.nodes["first"].attempts) == 1
    # limit 1 allows two attempts; the lost one does not count, so there are three
    assert [(item.phase, item.is_lost) for item in run.state.nodes["slow"].attempts] == [
        ("Error", True), ("Failed", False), ("Succeeded", False),
    ]  # fmt: skip


def test_a_lost_attempt_keeps_its_folder(engine):
    run = engine(
        a_workflow(
            [a_task("a")], [a_shell("a", "echo {{workflow.name}}; test -e ../0/mark || { touch mark; sleep 64; }")]
        )
    )
    run.start()
    until(lambda: (run.run_dir.path / "nodes/a/0/mark").exists())
    run.kill()

    assert run.run("--resume") == 0
    assert (run.run_dir.path / "nodes/a/0/output.log").read_text() == "run-1\n"
    assert run.output("a") == "run-1\n"


@pytest.mark.parametrize("seed", range(3))
def test_killed_at_random_moments_the_run_ends_as_if_never_touched(engine, seed):
    chance = random.Random(seed)
    count = "echo x >> ../../../count-{{inputs.parameters.n}}; sleep 0.05; echo {{inputs.parameters.n}} > $ARGOSY_OUT/v"
    run = engine(
        a_workflow(
            [
                a_task("one", template="count", arguments={"n": "one"}),
                a_task("many", template="count", depends="one", arguments={"n": "{{item}}"}, withSequence={"count": 3}),
                a_task("last", template="show", depends="many", arguments={"l": "{{tasks.many.outputs.parameters.v}}"}),
            ],
            [
                a_shell("count", count, inputs=["n"], outputs=["v"], **retries(0)),
                a_shell("show", "echo '{{inputs.parameters.l}}'", inputs=["l"]),
                a_shell("fin", "echo {{workflow.status}}"),
            ],
            onExit="fin",
        )
    )
    for _ in range(8):
        run.start("--resume")
        time.sleep(chance.uniform(0.1, 0.5))
        finished = {name: node.finished_at for name, node in run.state.nodes.items() if node.phase == "Succeeded"}
        run.kill()
        assert finished.items() <= {name: node.finished_at for name, node in run.state.nodes.items()}.items()
    assert run.run("--resume") == 0

    assert run.state.phase == "Succeeded"
    assert run.output("last") == '["0","1","2"]\n'
    assert run.output("onExit") == "Succeeded\n"
    for node in run.state.nodes.values():
        assert sum(not attempt.is_lost for attempt in node.attempts) == (0 if node.kind == "TaskGroup" else 1)


def test_a_killed_supervisor_takes_its_container_along_and_the_engine_cleans_up(engine):
    script = "(trap '' TERM HUP; setsid sleep 65) & sleep 65"
    run = engine(a_workflow([a_task("a")], [a_shell("a", script)])).start()
    state = run.until_running("a")
    family = until(lambda: pids if len(pids := run.family()) >= 4 else None)
    os.kill(state.nodes["a"].last.pid, signal.SIGKILL)

    assert run.wait() == 137
    assert not any(is_alive(pid, None) for pid in family)


def test_a_supervisor_that_was_stopped_does_not_keep_a_run_from_being_resumed(engine):
    run = engine(a_workflow([a_task("a")], [a_shell("a", "test {{retries}} = 1 || sleep 66", **retries(1))])).start()
    state = run.until_running("a")
    family = until(lambda: pids if len(pids := run.family()) >= 2 else None)
    os.kill(state.nodes["a"].last.pid, signal.SIGSTOP)
    run.kill()

    assert run.run("--resume") == 0
    assert not any(is_alive(pid, None) for pid in family)


def test_the_run_goes_on_when_who_asked_for_it_is_killed_before_the_engine_is_ready(engine):
    run = engine(a_workflow([a_task("a")], [a_shell("a", "echo done")]))
    read_end, write_end = os.pipe()
    os.close(read_end)
    code = subprocess.run(
        [sys.executable, "-m", "infra.local", "--run-dir", str(run.run_dir.path), "--ready-fd", str(write_end)],
        pass_fds=(write_end,), env={**os.environ, "PYTHONPATH": str(CHECKOUT)}, timeout=30, check=False,
    ).returncode  # fmt: skip
    os.close(write_end)

    assert code == 0
    assert run.output("a") == "done\n"


def test_a_second_engine_is_refused_and_names_the_first(engine):
    script = "until test -e ../../../go; do sleep 0.05; done"
    run = engine(a_workflow([a_task("a")], [a_shell("a", script)])).start()
    run.until_running("a")
    second = subprocess.run(
        [sys.executable, "-m", "infra.local", "--run-dir", str(run.run_dir.path)],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(CHECKOUT)}, timeout=30,
    )  # fmt: skip

    assert second.returncode == 78
    assert f"has an engine already, process {run.pid}" in second.stderr
    with pytest.raises(Exception, match=f"process {run.pid}"):
        start_engine(run.run_dir)
    (run.run_dir.path / "go").touch()
    assert run.wait() == 0


def test_of_engines_that_start_together_one_runs_the_run(engine):
    run = engine(a_workflow([a_task("a")], [a_shell("a", "echo x >> ../../../count; sleep 0.3")]))
    command = [sys.executable, "-m", "infra.local", "--run-dir", str(run.run_dir.path)]
    engines = [
        subprocess.Popen(command, stderr=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": str(CHECKOUT)})
        for _ in range(4)
    ]
    codes = sorted(item.wait(30) for item in engines)

    assert set(codes) <= {0, 78}
    assert codes[0] == 0
    assert (run.run_dir.path / "count").read_text() == "x\n"


def test_a_failed_run_resumes_with_new_retries_and_keeps_what_succeeded(engine):
    run = engine(
        a_workflow(
            [
                a_task("good"),
                a_task("bad", depends="good"),
                a_task("items", template="item", arguments={"n": "{{item}}"}, withSequence={"count": 2}),
                a_task("after", template="good", depends="bad && items"),
            ],
            [
                a_shell("good", "true"),
                a_shell("bad", "test -e ../../../cured || exit 3", **retries(1)),
                a_shell("item", "test {{inputs.parameters.n}} = 0 || test -e ../../../cured", inputs=["n"]),
                a_shell("fin", "echo {{workflow.status}}"),
            ],
            onExit="fin",
        )
    )
    assert run.run() in (1, 3)
    (run.run_dir.path / "cured").touch()

    assert run.run("--resume") == 0
    assert run.state.phase == "Succeeded"
    attempts = {name: len(node.attempts) for name, node in run.state.nodes.items()}
    assert attempts == {
        "good": 1, "bad": 3, "items": 0, "items(0:0)": 1, "items(1:1)": 2, "after": 1, "onExit": 2,
    }  # fmt: skip
    assert run.output("onExit") == "Succeeded\n"


def test_the_step_of_an_exit_handler_runs_again_when_a_failed_run_is_resumed(engine):
    steps = {"name": "end", "steps": [[{"name": "finish", "template": "fin"}]]}
    leaves = [a_shell("bad", "test -e ../../../cured"), a_shell("fin", "echo {{workflow.status}}", **retries(1)), steps]
    run = engine(a_workflow([a_task("bad")], leaves, onExit="end"))
    assert run.run() == 1
    (run.run_dir.path / "cured").touch()

    assert run.run("--resume") == 0
    assert {name: len(node.attempts) for name, node in run.state.nodes.items()} == {"bad": 2, "onExit[0].finish": 2}
    logs = [run.run_dir.path / f"nodes/onExit.finish/{attempt}/output.log" for attempt in (0, 1)]
    assert [log.read_text() for log in logs] == ["Failed\n", "Succeeded\n"]


def test_a_stopped_run_resumes_and_forgets_the_stop(engine):
    run = engine(a_workflow([a_task("a")], [a_shell("a", "test {{retries}} = 1 || sleep 66", **retries(0))])).start()
    run.until_running("a")
    run.run_dir.stop_path.write_text('{"by":"me","at":"now","force":true}')
    assert run.wait() == 83

    assert run.run("--resume") == 0
    assert not run.run_dir.stop_path.exists()
    assert run.state.stopped_by is None


def test_a_run_that_succeeded_cannot_be_resumed_and_its_engine_repeats_its_exit_code(engine):
    run = engine(a_workflow([a_task("a")], [a_shell("a", "true")]))
    assert run.run() == 0

    with pytest.raises(Exception, match="submit a new run"):
        resume(run.run_dir)
    assert run.run() == 0
    assert len(run.state.nodes["a"].attempts) == 1


def test_start_engine_returns_when_the_engine_holds_the_run_and_it_outlives_the_caller(engine):
    run = engine(a_workflow([a_task("a")], [a_shell("a", "sleep 0.3")]))
    code = (
        "import sys;from pathlib import Path;from infra.local.client import start_engine;"
        "from infra.local.run_dir import RunDir;r=RunDir(Path(sys.argv[1]));print(start_engine(r), r.engine_alive())"
    )
    starter = subprocess.run(
        [sys.executable, "-c", code, str(run.run_dir.path)],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(CHECKOUT)}, timeout=30, check=True,
    )  # fmt: skip

    pid, alive = starter.stdout.split()
    assert alive == "True"
    assert run.until(lambda state: state.is_final).phase == "Succeeded"
    until(lambda: not is_alive(int(pid), None))


def test_an_engine_that_cannot_record_kills_its_containers_and_can_be_resumed(engine):
    tasks = [
        a_task("many", template="item", withSequence={"count": 60}),
        a_task("end", depends="many", template="item"),
    ]
    run = engine(a_workflow(tasks, [a_shell("item", "true")]))
    # No file may grow over 20 KiB: the reserve fits, the events of some thirty items do not.
    code = run.start(shell="ulimit -f 20").wait()

    assert code == 81
    assert "cannot write" in run.run_dir.engine_log_path.read_text()
    assert run.run("--resume") == 0
    assert run.state.phase == "Succeeded"


def test_what_survives_engine_and_supervisor_is_killed_before_anything_is_repeated(engine):
    script = "test {{retries}} = 1 && exit 0; setsid sh -c 'sleep 67; true' & sleep 67"
    run = engine(a_workflow([a_task("a")], [a_shell("a", script, **retries(0))])).start()
    run.until_running("a")
    family = until(lambda: pids if len(pids := run.family()) >= 4 else None)
    supervisor = run.state.nodes["a"].last.pid
    os.kill(run.pid, signal.SIGSTOP)  # so that it cannot clean up after its supervisor
    os.kill(supervisor, signal.SIGKILL)
    run.kill()
    assert any(is_alive(pid, None) for pid in family)

    assert run.run("--resume") == 0
    assert not any(is_alive(pid, None) for pid in family)
