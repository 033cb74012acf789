"""The stage as Argo runs it: processes, exit codes, output files, and a kill at any moment."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from components.storage.local import LocalStore
from tests.components.shard.building import a_corpus, a_spec, shard


class Stage:
    """Runs one part after the other, each in its own process."""

    def __init__(self, folder: Path, **changed: object) -> None:
        self.folder, self.storage = folder, LocalStore(folder / "storage")
        self.spec = a_spec("corpus", **changed).to_bytes().decode()
        self.ends = dict[str, int]()

    def start(self, part: str, *inputs: str) -> "subprocess.Popen[str]":
        argv = [sys.executable, "-m", "components.shard", part, "--spec", self.spec, "--storage", self.storage.uri]
        argv += ["--run", "r-1", "--workflow", "w", "--experiment", "e", "--workdir", str(self.folder)]
        for item in inputs:
            argv += ["--input", item]
        env = os.environ | {"ARGOSY_OUT": str(self.folder / part), "ARGOSY_TERMINATION_LOG": str(self.folder / "words")}
        return subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, text=True)

    def run(self, part: str, *inputs: str) -> int:
        process = self.start(part, *inputs)
        self.said = process.communicate(timeout=60)[0]
        return process.returncode

    def output(self, part: str, name: str) -> str:
        return (self.folder / part / name).read_text()


def test_the_three_parts_hand_over_by_output_files_alone(tmp_path: Path) -> None:
    a_corpus(tmp_path / "corpus")
    stage = Stage(tmp_path)

    assert stage.run("plan") == 0
    plan_id = stage.output("plan", "plan_id")
    assert stage.output("plan", "num_shards") == "7"
    assert stage.run("task", f"plan_id={plan_id}", "task_index=0") == 0
    assert stage.run("merge", f"plan_id={plan_id}") == 78
    assert "task 1: left no receipt" in (tmp_path / "words").read_text()
    assert stage.run("task", f"plan_id={plan_id}", "task_index=1") == 0
    assert stage.run("merge", f"plan_id={plan_id}") == 0
    assert stage.output("merge", "num_tokens") == "2453"
    version = stage.output("merge", "data_version")
    assert stage.storage.find(f"data/versions/{version}/manifest.json") is not None


@pytest.mark.parametrize("part", ["", "pack", "--spec"])
def test_an_unknown_part_is_a_usage_error(part: str) -> None:
    done = subprocess.run([sys.executable, "-m", "components.shard", part], capture_output=True, text=True)

    assert done.returncode == 78
    assert "plan|task|merge" in done.stderr


def test_a_bad_corpus_ends_with_78_and_its_faults_as_last_words(tmp_path: Path) -> None:
    stage = Stage(tmp_path, sequence_length=1)

    assert stage.run("plan") == 78
    words = (tmp_path / "words").read_text()
    assert "sequence_length: is 1" in words
    assert f"{tmp_path}/corpus does not exist" in words
    assert not (tmp_path / "plan").exists()


def test_a_task_killed_at_any_moment_is_repeated_to_the_same_data_version(tmp_path: Path) -> None:
    a_corpus(tmp_path / "corpus", num_files=60)
    expected = shard(LocalStore(tmp_path / "untouched"), a_spec(tmp_path / "corpus", num_tasks=1))
    stage = Stage(tmp_path, num_tasks=1)
    stage.run("plan")
    inputs = (f"plan_id={stage.output('plan', 'plan_id')}", "task_index=0")
    folder = stage.storage.root / "data" / "shards"

    for num_shards in (1, 30, 60):  # kill it in the middle of a shard, ever further on
        process = stage.start("task", *inputs)
        deadline = time.monotonic() + 30
        while len(list(folder.glob("*.json"))) < num_shards and time.monotonic() < deadline:
            time.sleep(0.001)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        finished = {path.name: path.stat().st_mtime_ns for path in folder.glob("*.json")}
        assert not list(folder.parent.glob("plans/*/receipts"))
    assert stage.run("task", *inputs) == 0
    assert stage.run("merge", inputs[0]) == 0

    assert stage.output("merge", "data_version") == expected.data_version
    assert all((folder / name).stat().st_mtime_ns == written for name, written in finished.items())
    assert len(finished) >= 60


def test_planning_and_merging_start_without_numpy() -> None:
    program = "import sys, components.shard.run; print('numpy' in sys.modules)"

    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "False\n"
