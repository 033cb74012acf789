"""submit before anything runs: targets, faults, the plan, an experiment that runs already."""

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from components.ledger.ledger import Ledger, claim, this_process
from components.storage.local import LocalStore
from infra.local import client
from infra.local.run_dir import RunDir
from tests.pipelines.cli.conftest import argosy, processes_of, start_argosy, wait_until

DESCRIPTION = """\
experiment: tiny
shard: {corpus: corpus, sequence_length: 64, over_long: split}
launch:
  num_nodes: 1
  nproc_per_node: 1
  command: [python, train.py]
  limits: {run: 1h, no_progress: 5m}
checkpoint: {every_steps: 10}
"""


@pytest.fixture
def run_yaml(home: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    path = folder / "run.yaml"
    path.write_text(DESCRIPTION)
    return path


def test_a_dry_run_writes_nothing_and_prints_plan_and_manifest(run_yaml: Path, home: Path, tmp_path: Path):
    before = sorted(tmp_path.rglob("*"))

    done = argosy("submit", "-c", str(run_yaml), "--dry-run")

    assert done.returncode == 0
    assert sorted(tmp_path.rglob("*")) == before
    plan = [line for line in done.stdout.splitlines() if line.startswith("#")]
    assert plan[0] == (f"# Plan of {run_yaml} on target local, in {run_yaml.parent}; nothing was written or started")
    assert any(line.split()[1:] == ["resume.from", "latest"] for line in plan)
    assert any(line.split()[1:4] == ["launch", "shard-merge", "&&"] for line in plan)
    assert not any("every_steps" in line for line in plan)
    assert any(line.startswith("#   spec.podGC ") for line in plan)
    compiled = argosy("compile", "-c", str(run_yaml)).stdout
    assert yaml.safe_load(done.stdout) == yaml.safe_load(compiled)


def test_a_dry_run_as_json_holds_the_plan(run_yaml: Path):
    value = json.loads(argosy("submit", "-c", str(run_yaml), "--dry-run", "-o", "json").stdout)

    launch = next(stage for stage in value["plan"]["stages"] if stage["task"] == "launch")
    assert (launch["after"], launch["attempts"]) == ("shard-merge && preflight", 4)
    assert value["plan"]["defaults"]["model_version"] == "v1"
    assert value["workdir"] == str(run_yaml.parent)
    assert value["manifest"]["kind"] == "Workflow"


def test_all_faults_are_listed_before_anything_is_written(run_yaml: Path, home: Path):
    run_yaml.write_text(DESCRIPTION.replace("num_nodes: 1", "num_node: 1").replace("run: 1h", "run: 1"))

    done = argosy("submit", "-c", str(run_yaml))

    assert done.returncode == 78
    assert "launch.num_node" in done.stderr
    assert "launch.limits.run" in done.stderr
    assert list(home.iterdir()) == []


def test_a_target_that_does_not_exist_is_refused(run_yaml: Path, home: Path):
    named = argosy("submit", "-c", str(run_yaml), "--target", "x")
    inherited = argosy("submit", "-c", str(run_yaml), env={**os.environ, "ARGOSY_TARGET": "x"})

    for done in (named, inherited):
        assert (done.returncode, done.stderr.partition(":")[0]) == (78, "UnknownTarget")
    assert list(home.iterdir()) == []


def test_a_cluster_that_is_configured_but_unused_is_mentioned(run_yaml: Path):
    done = argosy("submit", "-c", str(run_yaml), "--dry-run", env={**os.environ, "KUBECONFIG": "/k"})

    assert done.returncode == 0
    assert done.stderr == (
        "KUBECONFIG is set but not used: this run stays on this machine; --target kubernetes uses it\n"
    )


def test_an_experiment_that_holds_the_ledger_is_reported_early(run_yaml: Path, home: Path):
    ledger = Ledger(LocalStore(home / "storage"), "tiny", "v1")
    claim(ledger, run="tiny-zzzzz", owner=this_process(target="local"), is_gone=lambda owner: False)

    done = argosy("submit", "-c", str(run_yaml))

    assert done.returncode == 78
    assert done.stderr.startswith("RunActive: run tiny-zzzzz (")
    assert f"{os.getpid()}" in done.stderr
    assert not (home / "runs").exists()


def test_ctrl_c_before_the_run_could_start_leaves_no_run_that_never_ran(run_yaml: Path, home: Path):
    (run_yaml.parent / "corpus").mkdir()
    (run_yaml.parent / "corpus" / "a.txt").write_text("a run that fails by itself would end with its own code\n" * 9)
    submitting = start_argosy("submit", "-c", str(run_yaml), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert submitting.stdout is not None
    assert submitting.stdout.readline().startswith("target local")
    submitting.send_signal(signal.SIGINT)  # before the engine is started, or just after
    submitting.communicate(timeout=60)

    assert submitting.returncode == 83
    assert [run.name for run in client.list_runs(home) if run.state().phase != "Failed"] == []
    wait_until(lambda: processes_of(home) == [])  # the engine may take longer to leave than anybody waits for it


def test_an_experiment_whose_engine_runs_is_reported_before_it_holds_the_ledger(
    run_yaml: Path, a_run: Callable[..., RunDir]
):
    client.start_engine(a_run({"shard-plan": "sleep 60"}))

    done = argosy("submit", "-c", str(run_yaml), "-o", "json")

    error = json.loads(done.stderr)["error"]
    assert (done.returncode, error["reason"]) == (78, "RunActive")
    assert error["seen"].startswith("run tiny-b2c4d (engine ")


def test_a_damaged_run_keeps_nobody_from_submitting(run_yaml: Path, home: Path, a_run: Callable[..., RunDir]):
    (run_yaml.parent / "corpus").mkdir()
    damaged = a_run({"shard-plan": "sleep 60"}, name="tiny-damaged")
    client.start_engine(damaged)
    (damaged.path / "run.json").write_bytes(b"\x00torn")
    (a_run({"shard-plan": "true"}, name="tiny-damaged-2").path / "run.json").write_bytes(b"")

    done = argosy("submit", "-c", str(run_yaml))

    assert "CorpusRefused: corpus corpus cannot be packed" in done.stdout
    assert (done.returncode, done.stderr) == (78, "")
