"""The built-in smoke recipe from shard to retain, as a user sees it."""

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.e2e.harness import LocalRun

pytestmark = pytest.mark.e2e


def test_the_smoke_recipe_ends_with_a_verified_checkpoint_and_a_report(tmp_path: Path) -> None:
    run = LocalRun(tmp_path / "home")
    run.start("submit", "--recipe", "smoke")
    assert run.finish() == 0, run.terminal()
    run.assert_nothing_left()
    terminal = run.terminal()

    assert "\x1b" not in terminal
    assert re.search(r"\bd-[0-9a-f]{16}\b", terminal)
    assert "step-6-term-1" in terminal
    assert "verified" in terminal.lower()
    report = json.loads((run.storage / "runs" / run.name / "report.json").read_text())
    assert report["run"] == run.name
    page = (run.storage / "runs" / run.name / "report.html").read_text()
    assert "<svg" in page
    assert "http" + "://" not in page.replace("http://www.w3.org", "")
    listed = json.loads(run.command("checkpoints", "list", "--experiment", "smoke", "-o", "json").stdout)
    assert next((item["step"], item["status"]) for item in listed["checkpoints"]) == (6, "verified")


def test_the_data_version_does_not_depend_on_the_number_of_tasks(tmp_path: Path) -> None:
    versions = set()
    for num_tasks in (1, 3):
        run = LocalRun(tmp_path / f"home-{num_tasks}")
        corpus = run.home / "corpus"
        corpus.mkdir()
        for number in range(20):
            (corpus / f"{number}.txt").write_bytes(bytes(range(256)) * (number * 7))
        run.start(
            "submit", "--recipe", "smoke", "--set", f"shard.num_tasks={num_tasks}", "--set", f"shard.corpus={corpus}",
            "--set", "launch.command=[sh, -c, 'echo trained']", "--set", "checkpoint=none",
            "--set", "shard.target_shard_size=20kB",
        )  # fmt: skip
        assert run.finish() == 0, run.terminal()
        versions.update(path.name for path in (run.storage / "data/versions").iterdir())

    assert len(versions) == 1


TUTORIAL_YAML = """
experiment: tutorial
shard: {corpus: corpus, sequence_length: 64, over_long: split, num_tasks: 1}
launch: {num_nodes: 2, nproc_per_node: 1, command: [python, ddp_tutorial.py]}
checkpoint: none
"""


def test_a_torchrun_script_runs_unchanged_from_its_own_folder(tmp_path: Path) -> None:
    run = LocalRun(tmp_path / "home")
    project = tmp_path / "project"
    (project / "corpus").mkdir(parents=True)
    (project / "corpus/a.txt").write_text("hello")
    shutil.copy(Path(__file__).parent / "programs/ddp_tutorial.py", project)
    (project / "run.yaml").write_text(TUTORIAL_YAML)
    run.start("submit", "-c", str(project / "run.yaml"))
    # How often it was restarted is not looked at: gloo may abort an interpreter that is leaving.
    assert run.finish() == 0, run.terminal()
    run.assert_nothing_left()

    said = run.command("logs", "--rank", "1").stdout
    assert "Start running basic DDP example on rank 1 of 2, local 0." in said
    assert "Finished running basic DDP example on rank 1." in said
