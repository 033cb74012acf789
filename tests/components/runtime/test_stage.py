"""What a stage's process promises: exit codes, outputs, a record, last words."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PROGRAM = """
import sys, time
from components.contracts.document import Document
from components.errors import BadInput, Problem, Transient
from components.runtime.stage import stage_main
from components.storage.base import open_store

class Spec(Document):
    do: str
    number: int = 0

def run(context, spec):
    if spec.do == "succeed": return {"greeting": context.inputs["name"]}
    if spec.do == "bad": raise BadInput("Bad", "two faults", problems=[Problem("a", "x"), Problem("b", "y", "mend it")])
    if spec.do == "transient": raise Transient("Down", "no answer", "wait")
    if spec.do == "bug": return 1 / 0
    print("waiting", flush=True); time.sleep(60)

stage_main("example", Spec, run, open_store=open_store, argv=sys.argv[1:], repeats="always" in sys.argv)
"""


class Stage:
    """One stage process in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {
            **os.environ, "PYTHONPATH": ".", "ARGOSY_OUT": str(folder / "out"), "ARGOSY_NODE": "here",
            "ARGOSY_TERMINATION_LOG": str(folder / "words"), "ARGOSY_STOP_FILE": str(folder / "stop.json"),
        }  # fmt: skip

    def start(self, spec: object, *extra: str) -> "subprocess.Popen[str]":
        argv = [
            "--spec",
            spec if isinstance(spec, str) else json.dumps(spec),
            "--storage",
            f"file://{self.folder}/storage",
        ]
        return subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *argv, "--run", "r-1", "--experiment", "e", *extra],
            env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def run(self, spec: object, *extra: str) -> tuple[int, str]:
        process = self.start(spec, *extra)
        stdout, stderr = process.communicate(timeout=30)
        return process.returncode, stdout + stderr

    def record(self, attempt: int = 0) -> dict[str, object]:
        value = json.loads((self.folder / f"storage/runs/r-1/stages/example/{attempt:03d}.json").read_text())
        assert isinstance(value, dict)
        return value


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_a_stage_that_succeeds_writes_its_outputs_and_a_record(stage: Stage) -> None:
    code, _ = stage.run({"do": "succeed"}, "--input", "name=a=b")

    assert code == 0
    assert (stage.folder / "out/greeting").read_text() == "a=b"
    assert stage.record()["exit_code"] == 0
    assert stage.record()["outputs"] == {"greeting": "a=b"}
    assert (stage.folder / "words").read_text() == "greeting a=b"


def test_a_stage_that_finished_in_an_earlier_workflow_of_the_run_gives_out_what_it_published(stage: Stage) -> None:
    first = stage.run({"do": "succeed"}, "--workflow", "r-1", "--input", "name=x")
    (stage.folder / "out/greeting").unlink()
    code, _ = stage.run({"do": "bug"}, "--workflow", "r-1-again")

    assert (first[0], code) == (0, 0)
    assert (stage.folder / "out/greeting").read_text() == "x"
    assert (stage.folder / "words").read_text() == "finished in an earlier Workflow of this run: greeting x"
    assert stage.record()["workflow"] == "r-1"
    assert len(list((stage.folder / "storage/runs/r-1/stages/example").iterdir())) == 1


def test_attempts_of_a_resumed_run_count_on_and_overwrite_nothing(stage: Stage) -> None:
    stage.run({"do": "bad"}, "--workflow", "r-1")
    stage.run({"do": "transient"}, "--workflow", "r-1", "--attempt", "1")
    stage.run({"do": "transient"}, "--workflow", "r-1-again")
    code, _ = stage.run({"do": "succeed"}, "--workflow", "r-1-again", "--attempt", "1", "--input", "name=x")

    assert code == 0
    records = [stage.record(attempt) for attempt in range(4)]
    assert [record["exit_code"] for record in records] == [78, 75, 75, 0]
    assert [record["workflow"] for record in records] == ["r-1", "r-1", "r-1-again", "r-1-again"]


def test_a_stage_that_repeats_does_its_work_in_every_workflow_of_the_run(stage: Stage) -> None:
    stage.run({"do": "succeed"}, "--workflow", "r-1", "--input", "name=x", "--task", "always")
    code, _ = stage.run({"do": "succeed"}, "--workflow", "r-1-again", "--input", "name=y", "--task", "always")

    assert code == 0
    assert (stage.folder / "out/greeting").read_text() == "y"


def test_all_faults_of_bad_input_are_told_and_no_output_is_written(stage: Stage) -> None:
    code, output = stage.run({"do": "bad"})

    assert code == 78
    assert "a: x" in output
    assert "b: y; mend it" in output
    assert not (stage.folder / "out").exists()
    assert stage.record()["reason"] == "Bad"


@pytest.mark.parametrize(("do", "code"), [("transient", 75), ("bug", 70)])
def test_each_failure_has_its_exit_code(stage: Stage, do: str, code: int) -> None:
    seen, output = stage.run({"do": do})

    assert seen == code
    assert ("Traceback" in output) == (do == "bug")


@pytest.mark.parametrize("commit", ["null", "HEAD", "0" * 40, "a" * 39, "A" * 40, "a" * 40 + "\n", "{{workflow.name}}"])
def test_a_commit_that_is_none_starts_no_work_and_is_recorded(stage: Stage, commit: str) -> None:
    code, output = stage.run({"do": "succeed"}, "--input", "name=a", "--commit", commit)

    assert code == 78
    assert "BadCommit" in output
    assert not (stage.folder / "out").exists()
    assert stage.record()["reason"] == "BadCommit"


@pytest.mark.parametrize("commit", ["", "0123456789abcdef0123456789abcdef01234567"])
def test_a_run_is_of_one_commit_or_of_none(stage: Stage, commit: str) -> None:
    code, _ = stage.run({"do": "succeed"}, "--input", "name=a", "--commit", commit)

    assert code == 0


@pytest.mark.parametrize("run", ["../elsewhere", "a/b", "A", "1", "", "a" * 64, "{{x}}"])
def test_a_run_whose_name_is_no_name_touches_no_storage(stage: Stage, run: str) -> None:
    code, output = stage.run({"do": "succeed"}, "--input", "name=a", "--run", run)

    assert code == 78
    assert "BadRunName" in output
    assert not (stage.folder / "storage").exists()


def test_a_run_that_nobody_named_has_its_workflows_name_in_every_log_line(stage: Stage) -> None:
    _, output = stage.run({"do": "bad"}, "--run", "", "--workflow", "w-1")

    assert '"run": "w-1"' in output


def test_outputs_that_cannot_be_written_are_the_machines_fault(stage: Stage) -> None:
    (stage.folder / "out").touch()

    code, output = stage.run({"do": "succeed"}, "--input", "name=x")

    assert code == 81
    assert "OutputsRefused: cannot write outputs to " in output


def test_a_spec_with_an_unknown_key_and_a_wrong_type_names_both(stage: Stage) -> None:
    code, output = stage.run({"do": "succeed", "nunber": 3, "number": "x"})

    assert code == 78
    assert "nunber" in output
    assert "number" in output


def test_a_usage_error_is_bad_input_not_exit_2(stage: Stage) -> None:
    assert stage.run({"do": "succeed"}, "--no-such-flag")[0] == 78


@pytest.mark.parametrize(("asked", "code"), [(True, 83), (False, 84)])
def test_sigterm_is_a_stop_only_when_somebody_asked(stage: Stage, asked: bool, code: int) -> None:
    process = stage.start({"do": "wait"})
    assert process.stdout is not None
    assert process.stdout.readline() == "waiting\n"
    if asked:
        (stage.folder / "stop.json").write_text("{}")
    process.send_signal(signal.SIGTERM)
    time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)

    assert process.returncode == code
    assert stage.record()["exit_code"] == code
