"""status, logs, why, runs: small real runs seen through the real command line."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from components.contracts import layout
from components.storage.local import LocalStore
from infra.local import client
from infra.local.run_dir import CHECKOUT, RunDir
from tests.pipelines.cli.conftest import argosy, finish, start_argosy, wait_until

MakeRun = Callable[..., RunDir]


def test_a_finished_run_is_shown_with_all_its_stages(a_run: MakeRun):
    finish(a_run({"shard-plan": "echo planned", "preflight": "true"}))

    done = argosy("status")

    assert done.returncode == 0
    assert done.stdout.splitlines()[0] == "tiny-b2c4d  Succeeded"
    assert re.search(r"^shard-plan +Succeeded +1 ", done.stdout, re.MULTILINE)
    assert re.search(r"^preflight +Succeeded +1 ", done.stdout, re.MULTILINE)


def test_status_as_json_is_one_document_with_a_diagnosis(a_run: MakeRun):
    finish(a_run({"preflight": "exit 81", "launch": "true"}, after={"launch": "preflight"}))

    value = json.loads(argosy("status", "-o", "json").stdout)

    assert (value["run"], value["state"], value["exit_code"]) == ("tiny-b2c4d", "Failed", 81)
    assert value["diagnosis"]["reason"] == "EnvironmentUnfit"
    assert [(stage["task"], stage["state"]) for stage in value["stages"]] == [
        ("preflight", "Failed"),
        ("launch", "Skipped"),
    ]


def test_why_names_cause_and_next_action_first_then_the_evidence(a_run: MakeRun):
    finish(a_run({"shard-plan": "exit 75"}))

    done = argosy("why")

    assert done.returncode == 0
    first = done.stdout.splitlines()[0]
    assert first.startswith("NotAnswering: shard-plan gave up on a store or the network that did not answer; ")
    assert re.search(r"`python \S*train\.py resume tiny-b2c4d`$", first)
    assert "  stage shard-plan, exit code: 75" in done.stdout.splitlines()


def test_why_tells_that_the_engine_is_dead_and_how_to_go_on(a_run: MakeRun):
    run = a_run({"shard-plan": "sleep 60"})
    engine = client.start_engine(run)
    wait_until(lambda: bool(run.state().nodes and run.state().nodes["shard-plan"].attempts))
    os.kill(engine, signal.SIGKILL)
    wait_until(lambda: not run.engine_alive())

    value = json.loads(argosy("why", "-o", "json").stdout)

    assert (value["reason"], value["state"]) == ("EngineDead", "Failed")
    assert "resume tiny-b2c4d" in value["action"]


def test_a_worker_cannot_write_to_the_terminal_through_us(a_run: MakeRun):
    script = r"printf '\033[2J\033]0;owned\007red \000 \033[31mflag\033[0m\r\n'; echo '{{x}} [bold]'; exit 3"
    finish(a_run({"shard-plan": script.replace("{{x}}", "{x}")}))

    shown = argosy("logs").stdout + argosy("status").stdout + argosy("why").stdout

    assert all(line.isprintable() for line in shown.splitlines())
    assert "red  flag" in shown
    assert "{x} [bold]" in shown


def test_logs_are_merged_filtered_and_given_as_json(a_run: MakeRun, home: Path):
    run = a_run({"shard-plan": "echo from the plan", "preflight": "echo from preflight"})
    finish(run)
    line = {"at": "2999-01-01T00:00:00.000Z", "level": "warning", "message": "slow", "task": "launch", "rank": 1}
    key = layout.log_chunk_key(run.name, generation=0, stream="node-0.rank-1.attempt-0", chunk=0)
    LocalStore(home / "storage").replace(key, json.dumps(line).encode() + b"\n")

    everything = argosy("logs").stdout.splitlines()
    assert [line.partition(" ")[2] for line in everything[:2]] == [
        "shard-plan  from the plan",
        "preflight  from preflight",
    ]
    assert everything[2].endswith(" launch/rank 1  WARNING slow")
    assert argosy("logs", "--stage", "shard").stdout.splitlines() == everything[:1]
    assert argosy("logs", run.name, "--rank", "1").stdout.splitlines() == everything[2:]
    assert argosy("logs", "--rank", "0").stdout == ""
    missing = argosy("logs", "--rank", "2")
    assert (missing.returncode, missing.stdout) == (78, "")
    assert missing.stderr.startswith("NoSuchRank: tiny-b2c4d has no rank 2; it has ranks 0 to 1")
    (found,) = argosy("logs", "--rank", "1", "-o", "json").stdout.splitlines()
    assert json.loads(found) == {**line, "node_rank": 0}


def test_following_logs_ends_with_the_run(a_run: MakeRun):
    run = a_run({"shard-plan": "for i in 1 2 3; do echo line $i; sleep 0.3; done"})
    client.start_engine(run)

    done = argosy("logs", "--follow")

    assert [line.partition("  ")[2] for line in done.stdout.splitlines()] == ["line 1", "line 2", "line 3"]


def test_runs_are_listed_newest_first(a_run: MakeRun):
    finish(a_run({"shard-plan": "true"}, name="tiny-ddddd"))
    finish(a_run({"shard-plan": "exit 78"}, name="tiny-fffff"))

    listed = json.loads(argosy("runs", "-o", "json").stdout)["runs"]

    assert [(run["run"], run["state"], run["exit_code"]) for run in listed] == [
        ("tiny-fffff", "Failed", 78),
        ("tiny-ddddd", "Succeeded", 0),
    ]
    assert argosy("runs").stdout.splitlines()[1].startswith("tiny-fffff  Failed     ")
    assert json.loads(argosy("runs", "--experiment", "other", "-o", "json").stdout)["runs"] == []


def test_a_damaged_run_folder_hides_no_other_run(a_run: MakeRun):
    (a_run({"shard-plan": "true"}, name="tiny-ddddd").path / "run.json").write_text("{torn")
    a_run({"shard-plan": "true"}, name="tiny-fffff")

    done = argosy("runs")

    assert "tiny-fffff" in done.stdout
    assert "tiny-ddddd" in done.stderr


@pytest.mark.parametrize("command", ["status", "logs", "why", "stop", "resume"])
def test_a_name_that_does_not_exist_suggests_the_nearest(a_run: MakeRun, command: str):
    a_run({"shard-plan": "true"})

    done = argosy(command, "tiny-b2c4e")

    assert done.returncode == 78
    assert done.stderr.startswith("NoSuchRun: there is no run tiny-b2c4e in ")
    assert done.stderr.rstrip().endswith("did you mean tiny-b2c4d?")


@pytest.mark.parametrize("command", ["status", "logs", "why", "stop", "resume"])
def test_without_any_run_that_is_said(home: Path, command: str):
    done = argosy(command)

    assert (done.returncode, done.stdout) == (78, "")
    assert done.stderr.startswith("NoRuns: ")


def test_looking_at_a_run_is_not_writing(a_run: MakeRun, home: Path):
    finish(a_run({"shard-plan": "true"}))
    before = {path: path.stat().st_mtime_ns for path in home.rglob("*")}

    for command in ("status", "logs", "why", "runs"):
        argosy(command)

    assert {path: path.stat().st_mtime_ns for path in home.rglob("*")} == before


@pytest.mark.parametrize("command", ["status", "logs", "why", "runs", "stop"])
def test_looking_loads_none_of_the_heavy_libraries(a_run: MakeRun, command: str):
    a_run({"shard-plan": "true"})

    done = subprocess.run(
        [sys.executable, "-X", "importtime", str(CHECKOUT / "pipelines/train.py"), command],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip

    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert "pipelines" in loaded
    assert loaded.isdisjoint({"hera", "torch", "numpy", "matplotlib", "kubernetes", "boto3", "yaml", "rich"})


def test_a_reader_that_has_seen_enough_ends_logs_quietly(a_run: MakeRun):
    finish(a_run({"shard-plan": "i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done"}))

    reader = start_argosy("logs", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert reader.stdout is not None
    assert reader.stderr is not None
    reader.stdout.readline()
    reader.stdout.close()

    assert reader.stderr.read() == ""
    assert reader.wait(30) == 0
    reader.stderr.close()
