"""Whole runs of small Workflows: real processes, the semantics of Argo."""

import json
import os
from pathlib import Path

import pytest

from tests.infra.local.workflows import a_python, a_shell, a_task, a_workflow, retries


def test_a_diamond_runs_in_order_and_hands_outputs_on(engine):
    run = engine(
        a_workflow(
            [
                a_task("top"),
                a_task("left", depends="top", arguments={"x": "{{tasks.top.outputs.parameters.v}}-l"}),
                a_task("right", depends="top", arguments={"x": "{{tasks.top.outputs.parameters.v}}-r"}),
                a_task(
                    "bottom",
                    depends="left && right",
                    arguments={"x": "{{tasks.left.outputs.parameters.v}} {{tasks.right.outputs.parameters.v}}"},
                ),
            ],
            [
                a_shell("top", "echo one > $ARGOSY_OUT/v", outputs=["v"]),
                a_shell("left", "printf '{{inputs.parameters.x}}' > $ARGOSY_OUT/v", inputs=["x"], outputs=["v"]),
                a_shell("right", "printf '{{inputs.parameters.x}}' > $ARGOSY_OUT/v", inputs=["x"], outputs=["v"]),
                a_shell("bottom", "echo '{{inputs.parameters.x}}'", inputs=["x"]),
            ],
        )
    )

    assert run.run() == 0
    assert run.state.phase == "Succeeded"
    assert run.output("bottom") == "one-l one-r\n"


def test_a_container_finds_itself_in_its_attempts_folder_with_a_listed_environment(engine, monkeypatch):
    monkeypatch.setenv("SECRET_OF_MINE", "x")
    monkeypatch.setenv("NCCL_DEBUG", "INFO")
    run = engine(
        a_workflow([a_task("a")], [a_python("a", "import json,os;print(json.dumps([os.getcwd(),dict(os.environ)]))")])
    )

    assert run.run() == 0
    folder, environment = json.loads(run.output("a"))
    attempt = run.run_dir.path / "nodes" / "a" / "0"
    assert folder == str(attempt)
    assert environment["ARGOSY_TARGET"] == "local"
    assert environment["ARGOSY_OUT"] == f"{attempt}/out"
    assert environment["ARGOSY_STOP_FILE"] == str(run.run_dir.path / "stop.json")
    assert environment["ARGOSY_TERMINATION_LOG"] == f"{attempt}/last-words"
    assert environment["ARGOSY_IMAGE"] == "image:1"
    assert environment["NCCL_DEBUG"] == "INFO"
    assert "SECRET_OF_MINE" not in environment
    assert "PYTHONPATH" in environment


def test_what_a_template_sets_stands_over_what_is_inherited_but_not_over_the_engine(engine, monkeypatch):
    monkeypatch.setenv("AWS_REGION", "inherited")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-for-any-file")
    template = a_python("a", "import json,os;print(json.dumps(dict(os.environ)))")
    template["container"]["env"] = [
        {"name": "AWS_REGION", "value": "{{workflow.parameters.region}}"},
        {"name": "ARGOSY_OUT", "value": "/elsewhere"},
    ]
    region = {"arguments": {"parameters": [{"name": "region", "value": "eu-1"}]}}
    run = engine(a_workflow([a_task("a")], [template], **region))

    assert run.run() == 0
    environment = json.loads(run.output("a"))
    assert environment["AWS_REGION"] == "eu-1"
    assert environment["ARGOSY_OUT"] == str(run.run_dir.path / "nodes" / "a" / "0" / "out")
    assert environment["AWS_SECRET_ACCESS_KEY"] == "not-for-any-file"
    (run.run_dir.path / "nodes" / "a" / "0" / "output.log").unlink()  # the one place where it was printed on purpose
    written = [path.read_bytes() for path in run.run_dir.path.rglob("*") if path.is_file()]
    assert not any(b"not-for-any-file" in data for data in written)


def test_a_sequence_names_its_items_as_argo_does_and_gathers_their_outputs(engine):
    run = engine(
        a_workflow(
            [
                a_task("task", arguments={"n": "{{item}}"}, withSequence={"start": 3, "end": 1}),
                a_task(
                    "merge",
                    depends="task",
                    arguments={"each": "{{tasks.task.outputs.parameters.v}}"},
                ),
            ],
            [
                a_shell("task", "echo {{inputs.parameters.n}} > $ARGOSY_OUT/v", inputs=["n"], outputs=["v"]),
                a_shell("merge", "echo '{{inputs.parameters.each}}'", inputs=["each"]),
            ],
        )
    )

    assert run.run() == 0
    assert list(run.phases()) == ["task", "task(0:3)", "task(1:2)", "task(2:1)", "merge"]
    assert run.state.nodes["task"].kind == "TaskGroup"
    assert run.output("merge") == '["3","2","1"]\n'


def test_an_empty_sequence_is_skipped_and_lets_what_waits_for_it_run(engine):
    run = engine(
        a_workflow(
            [a_task("none", withSequence={"count": 0}), a_task("after", depends="none")],
            [a_shell("none", "exit 1"), a_shell("after", "true")],
        )
    )

    assert run.run() == 0
    assert run.phases() == {"none": "Skipped", "after": "Succeeded"}
    assert run.state.nodes["none"].message == "Skipped, empty params"


def test_limit_two_means_three_attempts(engine):
    run = engine(a_workflow([a_task("a")], [a_shell("a", "echo {{retries}}; exit 9", **retries(2))]))

    assert run.run() == 9
    node = run.state.nodes["a"]
    assert [attempt.exit_code for attempt in node.attempts] == [9, 9, 9]
    assert [run.output("a", index) for index in range(3)] == ["0\n", "1\n", "2\n"]
    assert (node.phase, node.message, node.note) == ("Failed", "main: Error (exit code 9)", "No more retries left")
    assert (run.state.phase, run.state.message) == ("Failed", "a: main: Error (exit code 9)")


def test_the_expression_decides_which_exit_codes_are_tried_again(engine):
    expression = "lastRetry.status == 'Error' || lastRetry.exitCode in ['75', '84']"
    script = "test {{retries}} = 0 && exit 75; exit 78"
    run = engine(a_workflow([a_task("a")], [a_shell("a", script, **retries(5, expression=expression))]))

    assert run.run() == 78
    node = run.state.nodes["a"]
    assert len(node.attempts) == 2
    assert node.note == "retryStrategy.expression evaluated to false"


def test_backoff_is_waited_even_before_a_retry_that_will_be_refused(engine):
    strategy = retries(3, retryPolicy="OnError", backoff={"duration": "400ms"})
    run = engine(a_workflow([a_task("a")], [a_shell("a", "exit 5", **strategy)]))

    assert run.run() == 5
    node = run.state.nodes["a"]
    assert len(node.attempts) == 1
    waited = _seconds(node.attempts[0].finished_at, node.finished_at)
    assert waited >= 0.4


def test_no_backoff_is_waited_once_the_limit_is_reached(engine):
    run = engine(a_workflow([a_task("a")], [a_shell("a", "exit 5", **retries(0, backoff={"duration": "20s"}))]))

    assert run.run() == 5
    assert run.state.nodes["a"].note == "No more retries left"


def test_last_words_become_the_nodes_message(engine):
    run = engine(
        a_workflow([a_task("a")], [a_shell("a", 'echo "BadCorpus: empty" > $ARGOSY_TERMINATION_LOG; exit 78')])
    )

    assert run.run() == 78
    assert run.state.nodes["a"].message == "main: Error (exit code 78): BadCorpus: empty"


def test_a_container_killed_by_a_signal_has_128_and_its_number(engine):
    run = engine(a_workflow([a_task("a")], [a_shell("a", "kill -SEGV $$$$")]))

    assert run.run() == 139
    assert run.state.nodes["a"].message == "main: Error (exit code 139)"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (
            "no-such-program",
            "main: Error (exit code 64): failed to find name in PATH: "
            'exec: "no-such-program": executable file not found in $PATH',
        ),
        (
            "/etc/passwd",
            'main: Error (exit code 64): failed to find name in PATH: exec: "/etc/passwd": permission denied',
        ),
    ],
)
def test_a_command_that_cannot_start_fails_with_argos_code_and_words(engine, command, message):
    template = a_shell("a", "")
    template["container"]["command"] = [command]
    run = engine(a_workflow([a_task("a")], [template]))

    assert run.run() == 64
    assert run.state.nodes["a"].message == message


def test_an_output_that_is_missing_has_its_default_or_is_an_error(engine):
    run = engine(
        a_workflow(
            [a_task("with"), a_task("without")],
            [a_shell("with", "true", outputs=[("v", "d")]), a_shell("without", "true", outputs=["v"])],
        )
    )

    assert run.run() == 70
    assert run.state.nodes["with"].outputs == {"v": "d"}
    assert run.state.nodes["without"].phase == "Error"
    assert (
        run.state.nodes["without"].message
        == "wait: Error (exit code 64): open /argosy/out/v: no such file or directory"
    )


def test_outputs_lose_one_newline_and_survive_bytes_that_are_no_text(engine):
    run = engine(
        a_workflow(
            [a_task("a")],
            [
                a_shell(
                    "a", r"printf 'x\n\n' > $ARGOSY_OUT/v; printf '\377\173\173x' > $ARGOSY_OUT/w", outputs=["v", "w"]
                )
            ],
        )
    )

    assert run.run() == 0
    assert run.state.nodes["a"].outputs == {"v": "x\n", "w": "\ufffd{{x"}


def test_an_output_that_is_a_pipe_or_huge_is_an_error_and_hangs_nothing(engine):
    run = engine(
        a_workflow(
            [a_task("pipe"), a_task("huge")],
            [
                a_shell("pipe", "mkfifo $ARGOSY_OUT/v", outputs=["v"]),
                a_shell("huge", "head -c 300000 /dev/zero > $ARGOSY_OUT/v", outputs=["v"]),
            ],
        )
    )

    assert run.run() == 70
    assert run.phases() == {"pipe": "Error", "huge": "Error"}


def test_output_of_any_kind_and_size_is_kept_byte_for_byte(engine):
    code = "import sys;[sys.stdout.buffer.write(bytes(range(256))*4096) for _ in range(20)];sys.stderr.write('end')"
    run = engine(a_workflow([a_task("a")], [a_python("a", code)]))

    assert run.run() == 0
    data = (run.run_dir.path / "nodes/a/0/output.log").read_bytes()
    assert len(data) == 20 * 4096 * 256 + 3
    assert data[:256] == bytes(range(256))


def test_a_bare_dependency_is_not_met_by_failure_and_an_omitted_leaf_fails_the_run(engine):
    run = engine(
        a_workflow(
            [a_task("a"), a_task("b", depends="a"), a_task("c", depends="b")],
            [a_shell("a", "exit 3"), a_shell("b", "true"), a_shell("c", "true")],
        )
    )

    assert run.run() == 3
    assert run.phases() == {"a": "Failed", "b": "Omitted", "c": "Omitted"}
    assert run.state.nodes["b"].message == "omitted: depends condition not met"
    assert run.state.phase == "Failed"


def test_a_leaf_that_runs_after_a_failure_turns_the_run_green(engine):
    run = engine(
        a_workflow(
            [a_task("a"), a_task("clean", depends="a.Failed")],
            [a_shell("a", "exit 3"), a_shell("clean", "true")],
        )
    )

    assert run.run() == 0
    assert run.phases() == {"a": "Failed", "clean": "Succeeded"}


def test_all_failed_and_any_succeeded_look_at_the_items(engine):
    run = engine(
        a_workflow(
            [
                a_task("some", arguments={"n": "{{item}}"}, withSequence={"count": 2}),
                a_task("any", template="ok", depends="some.AnySucceeded"),
                a_task("all", template="ok", depends="some.AllFailed"),
            ],
            [a_shell("some", "exit {{inputs.parameters.n}}", inputs=["n"]), a_shell("ok", "true")],
        )
    )

    run.run()
    assert run.phases() == {
        "some": "Failed", "some(0:0)": "Succeeded", "some(1:1)": "Failed", "any": "Succeeded", "all": "Omitted",
    }  # fmt: skip


def test_running_branches_go_on_after_a_failure_whatever_fail_fast_says(engine):
    for fail_fast in (True, False):
        run = engine(
            a_workflow(
                [a_task("bad"), a_task("slow"), a_task("after", depends="slow")],
                [a_shell("bad", "exit 4"), a_shell("slow", "sleep 0.2"), a_shell("after", "true")],
                dag={"failFast": fail_fast},
            ),
            run=f"run-{fail_fast}".lower(),
        )
        assert run.run() == 4
        assert run.phases() == {"bad": "Failed", "slow": "Succeeded", "after": "Succeeded"}


def test_the_exit_handler_learns_how_the_run_ended(engine):
    for script, phase, code in (("true", "Succeeded", 0), ("exit 7", "Failed", 7)):
        run = engine(
            a_workflow(
                [a_task("a")],
                [a_shell("a", script), a_shell("fin", "echo {{workflow.status}} '{{workflow.failures}}'")],
                onExit="fin",
            ),
            run=f"run-{code}",
        )
        assert run.run() == code
        status, failures = run.output("onExit").rstrip("\n").split(" ", 1)
        assert status == phase
        failed = json.loads(json.loads(failures))
        assert [item["displayName"] for item in failed or []] == (["run-7", "a"] if code else [])


def test_a_failing_exit_handler_turns_success_into_failure_and_leaves_failure_alone(engine):
    for script, code, phase in (("true", 5, "Failed"), ("exit 7", 7, "Failed")):
        run = engine(
            a_workflow([a_task("a")], [a_shell("a", script), a_shell("fin", "exit 5")], onExit="fin"), run=f"run-{code}"
        )
        assert run.run() == code
        assert run.state.phase == phase


def test_a_leafs_deadline_counts_for_each_attempt_and_ends_in_sigkill(engine):
    run = engine(
        a_workflow(
            [a_task("a")],
            [
                a_shell(
                    "a",
                    'test {{retries}} = 1 && exit 0; trap "" TERM; sleep 60 & while true; do wait; done',
                    activeDeadlineSeconds=1,
                    podSpecPatch='{"terminationGracePeriodSeconds":0}',
                    **retries(1),
                )
            ],
        )
    )

    assert run.run() == 0
    first, second = run.state.nodes["a"].attempts
    assert (first.phase, first.exit_code) == ("Failed", 137)
    assert first.message == "Pod was active on the node longer than the specified deadline"
    assert second.phase == "Succeeded"


def test_a_leaf_past_its_deadline_failed_even_when_it_exits_zero(engine):
    run = engine(
        a_workflow([a_task("a")], [a_shell("a", 'trap "exit 0" TERM; sleep 60 & wait', activeDeadlineSeconds=1)])
    )

    assert run.run() == 83
    assert run.state.nodes["a"].exit_code == 0
    assert run.phases() == {"a": "Failed"}


def test_the_workflows_deadline_ends_everything_but_the_exit_handler(engine):
    run = engine(
        a_workflow(
            [a_task("a"), a_task("b", depends="a.Failed || a.Succeeded")],
            [
                a_shell("a", 'trap "exit 84" TERM; sleep 60 & wait', **retries(5)),
                a_shell("b", "true"),
                a_shell("fin", "sleep 0.5; echo {{workflow.status}}"),
            ],
            activeDeadlineSeconds=1,
            onExit="fin",
        )
    )

    assert run.run() == 83
    assert run.phases() == {"a": "Failed", "b": "Failed", "onExit": "Succeeded"}
    assert run.state.nodes["a"].attempts[0].exit_code == 84
    assert run.state.nodes["b"].message == "Step exceeded its deadline"
    assert run.output("onExit") == "Failed\n"


def test_what_a_container_leaves_running_is_gone_when_it_has_ended(engine):
    leave = (
        "import os,subprocess,time\n"
        "subprocess.Popen(['sleep','611'],start_new_session=True)\n"
        "if os.fork()==0:\n os.setsid()\n if os.fork()==0: time.sleep(612)\n os._exit(0)\n"
        "time.sleep(0.2)\n"
    )
    count = (  # those of this run only: others may be testing on this machine
        "import glob,os\nmine=os.environ['ARGOSY_STOP_FILE'].encode()\nnum=0\n"
        "for path in glob.glob('/proc/[0-9]*'):\n"
        " try: num+=mine in open(path+'/environ','rb').read() and int(path[6:])!=os.getpid()\n"
        " except OSError: pass\n"
        "print(num)"
    )
    run = engine(a_workflow([a_task("a"), a_task("b", depends="a")], [a_python("a", leave), a_python("b", count)]))

    assert run.run() == 0
    assert run.output("b") == "0\n"


def test_a_task_that_uses_an_output_nobody_wrote_is_an_error(engine):
    run = engine(
        a_workflow(
            [
                a_task("a"),
                a_task("b", depends="a.Failed", arguments={"x": "{{tasks.a.outputs.parameters.v}}"}),
            ],
            [a_shell("a", "exit 3", outputs=["v"]), a_shell("b", "true", inputs=["x"])],
        )
    )

    assert run.run() == 3
    assert run.phases() == {"a": "Failed", "b": "Error"}
    assert run.state.nodes["b"].message == "failed to resolve {{tasks.a.outputs.parameters.v}}"


def test_user_text_with_braces_reaches_the_program_unchanged(engine):
    template = a_shell("a", "")
    template["container"].update(command=["printf", "%s"], args=['{"x":"\\u007b\\u007bretries\\u007d\\u007d"}'])
    run = engine(a_workflow([a_task("a")], [template]))

    assert run.run() == 0
    assert run.output("a") == '{"x":"\\u007b\\u007bretries\\u007d\\u007d"}'


def _seconds(start, end):
    from components.contracts.clock import parse_utc

    return (parse_utc(end) - parse_utc(start)).total_seconds()


def test_an_attempt_that_cannot_be_started_is_an_error_and_is_tried_again(engine):
    always = retries(1, expression="lastRetry.status == 'Error' && lastRetry.exitCode == '-1'")
    run = engine(a_workflow([a_task("a")], [a_shell("a", "true", **always)]))
    (run.run_dir.path / "nodes").touch()  # a file where the attempts' folders should be

    assert run.run() == 70
    first, second = run.state.nodes["a"].attempts
    assert (first.phase, first.exit_code, second.phase) == ("Error", None, "Error")
    assert "cannot start: [Errno 20] Not a directory" in first.message


def test_many_failures_and_strange_words_still_let_the_exit_handler_run(engine):
    words = r"printf '\033[31m\177 \377%3000d' 7 > $ARGOSY_TERMINATION_LOG; exit 3"
    show = a_shell("fin", "")
    show["container"].update(command=["printf", "%s"], args=["{{workflow.failures}}"])
    run = engine(
        a_workflow(
            [a_task("many", template="t", withSequence={"count": 60})], [a_shell("t", words), show], onExit="fin"
        )
    )

    assert run.run() == 3
    failures = json.loads(json.loads(run.output("onExit")))
    assert len(failures) == 50
    assert [item["displayName"] for item in failures[:3]] == ["run-1", "many", "many(0:0)"]
    assert failures[2]["message"].startswith("main: Error (exit code 3): \x1b[31m? \ufffd")


def test_no_more_containers_run_at_once_than_there_are_places(engine):
    code = (
        "import os,time;open(f'../../../on-{os.getpid()}','w');time.sleep(.1);"
        "print(sum(name.startswith('on-') for name in os.listdir('../../..')));os.remove(f'../../../on-{os.getpid()}')"
    )
    run = engine(a_workflow([a_task("many", template="t", withSequence={"count": 12})], [a_python("t", code)]))

    assert run.run() == 0
    most = max(int(run.output(f"many({index}:{index})")) for index in range(12))
    assert most <= max(2, len(os.sched_getaffinity(0)))


def test_an_engine_with_a_wide_run_stays_below_80_mib(engine):
    items = a_task("many", template="t", withSequence={"count": 30})
    run = engine(
        a_workflow([items, a_task("last", depends="many")], [a_shell("t", "true"), a_shell("last", "sleep 0.5")])
    )
    run.start().until_running("last")
    status = Path(f"/proc/{run.pid}/status").read_text()

    assert run.wait() == 0
    assert int(status.split("VmHWM:")[1].split()[0]) < 80 * 1024
