"""kill -9 of each kind of process in the middle of training: the run finishes with the loss of an untouched one."""

import fcntl
import json
import os
from pathlib import Path

import pytest

from tests.e2e.harness import LocalRun

pytestmark = pytest.mark.e2e

STEPS, EVERY = 80, 10

RUN_YAML = f"""
experiment: kills
shard: {{corpus: corpus, sequence_length: 64, over_long: split, num_tasks: 2}}
launch:
  num_nodes: 2
  nproc_per_node: 1
  command: [python, -m, components.trainer, --steps, "{STEPS}", --layers, "2", --width, "64", --batch, "16"]
  limits: {{start: 2m, run: 10m, no_progress: 1m, stop: 20s}}
  max_restarts: 3
checkpoint: {{every_steps: {EVERY}}}
retain: {{keep_last: 2}}
"""


def prepare(home: Path) -> LocalRun:
    run = LocalRun(home)
    corpus = home / "corpus"
    corpus.mkdir()
    for number in range(30):
        (corpus / f"{number:02}.txt").write_text(
            f"file {number}: " + "the quick brown fox jumps over the lazy dog. " * 60
        )
    (home / "run.yaml").write_text(RUN_YAML)
    return run


@pytest.fixture(scope="session")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> dict[int, float]:
    """Losses of a run that nobody disturbed; computed once, also when several test processes ask."""
    base = tmp_path_factory.getbasetemp()
    # Test processes of one session have neighbouring folders; alone, the neighbours are earlier sessions.
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with (shared / "untouched.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        result = shared / "untouched.json"
        if not result.exists():
            run = prepare(shared / "untouched")
            run.start("submit", "-c", "run.yaml")
            assert run.finish() == 0, run.terminal()
            run.assert_nothing_left()
            result.write_text(json.dumps(run.losses()))
        return {int(step): loss for step, loss in json.loads(result.read_text()).items()}


def assert_same_curve(run: LocalRun, untouched: dict[int, float]) -> None:
    losses = run.losses()
    assert sorted(untouched) == list(range(1, STEPS + 1))
    assert losses[STEPS].hex() == untouched[STEPS].hex()
    assert {step: loss.hex() for step, loss in losses.items()} == {step: untouched[step].hex() for step in losses}
    assert (run.storage / "checkpoints/kills/v1/log").is_dir()


@pytest.mark.parametrize("role", ["rank", "guard", "agent", "launcher"])
def test_a_killed_process_is_replaced_and_the_loss_is_the_same(
    role: str, tmp_path: Path, untouched: dict[int, float]
) -> None:
    run = prepare(tmp_path / "home")
    run.start("submit", "-c", "run.yaml")
    run.wait_for_step(EVERY + 5)
    run.kill(role, which=-1)

    assert run.finish() == 0, run.terminal()
    run.assert_nothing_left()
    attempts = [attempt for state in run.gang_states() for attempt in state["attempts"]]
    assert len(attempts) == 2
    assert attempts[1].get("resumed_step", 0) >= EVERY
    assert_same_curve(run, untouched)


def test_a_killed_coordinator_is_replaced_and_the_loss_is_the_same(tmp_path: Path, untouched: dict[int, float]) -> None:
    run = prepare(tmp_path / "home")
    run.start("submit", "-c", "run.yaml")
    run.wait_for_step(EVERY + 5)
    run.kill("agent", which=0)

    assert run.finish() == 0, run.terminal()
    run.assert_nothing_left()
    assert_same_curve(run, untouched)


def test_a_killed_engine_leaves_nothing_and_resume_finishes_the_run(
    tmp_path: Path, untouched: dict[int, float]
) -> None:
    run = prepare(tmp_path / "home")
    run.start("submit", "-c", "run.yaml")
    run.wait_for_step(EVERY + 5)
    run.kill("engine")
    assert run.finish() != 0
    run.assert_nothing_left()
    assert "resume" in run.command("why").stdout.splitlines()[0]

    run.start("resume")
    assert run.finish() == 0, run.terminal()
    run.assert_nothing_left()
    assert_same_curve(run, untouched)
