"""The stage as a whole: what it files, what it says, which error it ends with."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from components.contracts.checks import CheckStatus
from components.contracts.gang import AcceleratorRule, ResumeRule
from components.contracts.layout import run_record_key
from components.contracts.records import RunRecord
from components.errors import BadInput, EnvironmentUnfit, NodeUnfit, Stopped
from tests.components.preflight.conftest import RUN, Stage, a_spec
from tests.fakes.s3_server import S3Server

ROOT = Path(__file__).parents[3]
HUGE = 1 << 50


def test_a_fit_place_ends_with_a_verdict_and_a_report(stage: Stage) -> None:
    assert stage.run() in ("ok", "warn")
    names = {result.name for result in stage.report().results}
    assert names == {
        "storage_writable", "storage_atomic", "clock", "disk_space", "disk_space_for_shards", "experiment_free",
        "resume_point", "program", "torch", "memory", "cores", "accelerators", "shared_memory", "open_files", "port",
    }  # fmt: skip


def test_each_check_is_a_log_line(stage: Stage) -> None:
    stage.run()
    lines = stage.lines()
    assert len(lines) == 15
    assert lines[1]["message"] == "storage_atomic: ok: second create refused; 1 of 4 racing creates succeeded"
    assert {"subject", "expected", "origin"} <= set(lines[1])


def test_the_runs_record_is_filed_once(stage: Stage) -> None:
    stage.run()
    record = RunRecord.from_bytes(stage.store.read(run_record_key(RUN)), where="the record")
    assert (record.run, record.workflow, record.created_at) == (RUN, "wf-1", "2026-11-29T19:00:00.000Z")
    assert record.description == {"experiment": "e", "seed": 1}
    stage.run(description={"experiment": "e", "seed": 2})
    assert RunRecord.from_bytes(stage.store.read(run_record_key(RUN)), where="the record") == record


def test_all_failures_are_told_at_once(stage: Stage) -> None:
    with pytest.raises(EnvironmentUnfit) as failure:
        stage.run(memory_per_rank_bytes=HUGE, min_free_bytes=HUGE, accelerator=AcceleratorRule(model="H100"))
    told = str(failure.value)
    first = told.splitlines()[0]
    assert first.startswith("PreflightFailed: disk_space: ")
    assert first.endswith(
        " (expected 1024.0 TiB free for checkpoints and logs); "
        "4 checks failed: disk_space, disk_space_for_shards, memory, accelerators"
    )
    for name in ("disk_space ", "disk_space_for_shards ", "memory: ", "accelerators: "):
        assert f"\n  {name}" in told
    assert "room for 0 of 2 ranks (expected 2048.0 TiB for 2 ranks of 1024.0 TiB" in told
    assert len([result for result in stage.report().results if result.status is CheckStatus.FAIL]) == 4


def test_a_failure_of_this_machine_alone_is_its_own(stage: Stage) -> None:
    with pytest.raises(NodeUnfit, match=r"preflight\.memory_per_rank"):
        stage.run(memory_per_rank_bytes=HUGE)


def test_a_program_that_does_not_exist_is_bad_input_and_everything_else_is_told_too(stage: Stage) -> None:
    with pytest.raises(BadInput) as failure:
        stage.run(command=("no-such-program",), memory_per_rank_bytes=HUGE)
    assert [problem.where for problem in failure.value.problems] == ["program no-such-program", "memory"]
    assert "correct launch.command" in str(failure.value)


def test_the_environment_of_the_description_finds_the_program(stage: Stage) -> None:
    (stage.folder / "bin").mkdir()
    program = stage.folder / "bin/my-trainer"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert stage.run(command=("my-trainer",), env={"PATH": str(program.parent)}) in ("ok", "warn")


def test_an_accelerator_that_does_not_answer_is_unknown_and_stops_the_run(stage: Stage) -> None:
    (stage.folder / "bin").mkdir()
    smi = stage.folder / "bin/nvidia-smi"
    smi.write_text("#!/bin/sh\necho nonsense\n")
    smi.chmod(0o755)
    with pytest.raises(Stopped, match="1 check could not be measured: accelerators\n  accelerators"):
        stage.run(env={"PATH": f"{smi.parent}:{os.environ['PATH']}"})


def test_on_a_cluster_the_machine_is_left_to_the_agents(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARGOSY_TARGET", "kubernetes")
    assert stage.run(backend="auto", memory_per_rank_bytes=HUGE, command=("no-such-program",)) == "ok"
    assert "memory" not in {result.name for result in stage.report().results}


def test_without_checkpoints_there_is_no_resume_point_to_look_for(stage: Stage) -> None:
    stage.run(checkpoint=None, resume=ResumeRule(source="step:300", on_new_data="refuse"))
    assert "resume_point" not in {result.name for result in stage.report().results}


def test_a_corpus_that_would_not_fit_fails_before_anything_was_packed_and_warns_afterwards(stage: Stage) -> None:
    big = stage.folder / "corpus/big"
    with big.open("wb") as file:
        file.truncate(1 << 43)  # sparse: 8 TiB that take no room
    with pytest.raises(EnvironmentUnfit, match="disk_space_for_shards"):
        stage.run()
    (stage.store.root / "data/versions/d-1").mkdir(parents=True)
    assert stage.run() == "warn"


def test_a_corpus_that_is_missing_is_left_to_the_shard_stage(stage: Stage) -> None:
    assert stage.run(corpus="nowhere") in ("ok", "warn")


@pytest.mark.parametrize("target", ["local", "kubernetes"])
@pytest.mark.parametrize(
    ("bucket", "secret", "reason"),
    [("no-such-bucket", "", "NoSuchBucket"), ("", "another", "CredentialsRefused")],
)
def test_a_store_that_is_named_wrongly_is_told_by_its_own_reason_in_the_first_line(
    stage: Stage, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch, target: str, bucket: str, secret: str,
    reason: str,
) -> None:  # fmt: skip
    store = s3_server.new_store()
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    if secret:
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)
    monkeypatch.setenv("ARGOSY_TARGET", target)

    ended = run_process(stage, f"s3://{bucket}/x" if bucket else store.uri, backend="auto")

    assert ended.returncode == 78, ended.stdout
    first, *others = (stage.folder / "words").read_text().splitlines()
    assert first.startswith(f"PreflightFailed: {reason}: ")
    assert first.endswith("; 3 checks failed: storage_writable, storage_atomic, resume_point")
    assert [line.split()[0] for line in others] == ["storage_writable", "storage_atomic", "resume_point"]


def run_process(stage: Stage, storage: str, **changes: Any) -> "subprocess.CompletedProcess[str]":
    words, spec = stage.folder / "words", a_spec(**changes).to_bytes().decode()
    return subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "components.preflight", "--spec", spec,
         "--storage", storage, "--run", RUN, "--task", "preflight", "--workdir", str(stage.folder)],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "ARGOSY_TERMINATION_LOG": str(words), "ARGOSY_OUT": str(stage.folder / "out")},
    )  # fmt: skip


def test_as_a_process_it_writes_its_output_and_imports_nothing_heavy(stage: Stage) -> None:
    ended = run_process(stage, stage.store.uri)
    assert ended.returncode == 0, ended.stdout
    assert (stage.folder / "out/verdict").read_text() in ("ok", "warn")
    imported = {line.rsplit("|", 1)[-1].strip() for line in ended.stderr.splitlines()}
    assert imported & {"numpy", "torch", "hera", "boto3", "kubernetes", "safetensors"} == set()


def test_a_storage_that_cannot_be_used_is_an_environment_unfit_with_last_words(stage: Stage) -> None:
    (stage.folder / "occupied").write_text("a file")
    ended = run_process(stage, f"file://{stage.folder}/occupied")
    assert ended.returncode == 81
    words = (stage.folder / "words").read_text()
    assert words.startswith("PreflightFailed: ")
    assert "storage_writable" in words
    assert "a file stands where a folder should be" in words
    assert not (stage.folder / "out").exists()
    assert [line["exit_code"] for line in map(json.loads, ended.stdout.splitlines()) if "exit_code" in line] == [81]
