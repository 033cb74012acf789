"""The launch stage with real agents and guards, and a program that keeps to the contract without training."""

import contextlib
import json
import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from components.contracts.checkpoint import CheckpointManifest
from components.contracts.gang import CheckpointRule, GangState
from components.contracts.layout import checkpoint_manifest_key, gang_state_key
from components.contracts.retention import RetentionPolicy
from components.launch.spec import LaunchSpec
from components.ledger.ledger import Ledger, begin, claim, release, this_process
from components.runtime.processes import descendants
from tests.components.launch.stage import CHECKOUT, LIMITS, REAL_STAGE, Place, Stage, a_spec, wait_until
from tests.components.shard.building import a_corpus, shard
from tests.components.shard.building import a_spec as a_shard_spec

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(sys.platform != "linux", reason="the local gang needs Linux"),
]

WORKER = str(CHECKOUT / "tests" / "fakes" / "worker.py")
CHECKPOINT = CheckpointRule(every_steps=10, writers="rank0", verify_level="digests", retain=RetentionPolicy())
FINAL_LOSS = 3.440498435243808
"""Of an undisturbed program after 40 steps."""


class RealPlace(Place):
    """A place with packed data in it."""

    def __post_init__(self) -> None:
        a_corpus(self.folder / "corpus")
        self.data_version = shard(self.store, a_shard_spec(self.folder / "corpus")).data_version  # type: ignore[arg-type]

    def run_real(self, spec: LaunchSpec) -> Stage:
        return self.start(spec, stage=REAL_STAGE)

    def gang_state(self, generation: int = 0) -> GangState | None:
        key = gang_state_key(self.run, generation=generation)
        return GangState.from_bytes(self.store.read(key), where=key) if self.store.find(key) else None

    def wait_for_step(self, step: int, *, generation: int = 0) -> None:
        def reached() -> bool:
            state = self.gang_state(generation)
            return state is not None and state.last_step is not None and state.last_step.step >= step

        wait_until(reached, f"step {step}", seconds=60)

    def find_process(self, stage: Stage, *words: str) -> int:
        """The first descendant of the launcher whose command line holds all `words`."""
        for pid in descendants(stage.process.pid):
            command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            if all(word in command for word in words):
                return pid
        raise AssertionError(f"no process with {words}")

    def wait_for_process(self, stage: Stage, *words: str) -> int:
        """Like `find_process`, as soon as there is one: long before an interpreter has read its imports."""
        found: list[int] = []

        def is_there() -> bool:
            with contextlib.suppress(AssertionError, OSError):
                found.append(self.find_process(stage, *words))
            return bool(found)

        wait_until(is_there, f"a process with {words}")
        return found[0]

    def final_loss(self) -> float:
        entry = Ledger(self.store, "exp", "v1").state().newest_first("verified")[0]
        key = checkpoint_manifest_key(entry.folder)
        manifest = CheckpointManifest.from_bytes(self.store.read(key), where=key)
        assert manifest.step == 40
        return float(json.loads(self.store.read(f"{entry.folder}/{manifest.files[0].path}"))["loss"])


@pytest.fixture
def place(tmp_path: Path):  # type: ignore[no-untyped-def]
    place = RealPlace(tmp_path)
    yield place
    place.close()


def a_run(*options: str, **changes: Any) -> LaunchSpec:
    values: dict[str, Any] = {
        "command": (sys.executable, WORKER, "--steps", "40", *options), "checkpoint": CHECKPOINT, **changes,
    }  # fmt: skip
    return a_spec(**values)


def test_an_undisturbed_gang_commits_and_verifies_its_checkpoints(place: RealPlace) -> None:
    stage = place.run_real(a_run("--children"))
    assert stage.wait(60) == 0
    assert stage.outputs == {
        "checkpoint": "step-40-term-1", "step": "40", "resume_step": "0", "restarts": "0", "outcome": "succeeded",
    }  # fmt: skip
    assert place.final_loss() == FINAL_LOSS
    assert place.processes() == []
    assert "rank 0 starts at step 0" in [line["message"] for line in stage.log]


def test_a_failed_rank_is_restarted_in_place_from_the_newest_checkpoint(place: RealPlace, tmp_path: Path) -> None:
    stage = place.run_real(a_run("--fault", "0:25:exit7", "--once", str(tmp_path / "once")))
    assert stage.wait(60) == 0
    state = place.gang_state()
    assert state is not None
    assert [(attempt.outcome, attempt.resumed_step) for attempt in state.attempts] == [
        ("failed", 0), ("succeeded", 20),
    ]  # fmt: skip
    assert stage.outputs["restarts"] == "1"
    assert place.final_loss() == FINAL_LOSS


def test_a_rank_that_always_fails_ends_the_run_with_its_name(place: RealPlace) -> None:
    stage = place.run_real(a_run("--fault", "1:5:exit7", checkpoint=None, max_restarts=1))
    assert stage.wait(60) == 90
    assert stage.last_words == (
        'WorkerFailed: rank 1 on node 1 exited with code 7 (last line: "rank 1 fails at step 5: exit7"); '
        "1 of 1 restarts used; read that rank's log and mend the program"
    )
    assert "rank 1 fails at step 5: exit7" in [line["message"] for line in stage.log if line.get("rank") == 1]
    assert place.processes() == []


@pytest.mark.parametrize(
    "words", [("components.agent", "--node-rank 1"), ("components.agent", "--node-rank 0"), ("guard.py",)]
)
def test_a_killed_agent_or_guard_means_a_new_generation_that_finishes(
    place: RealPlace, words: tuple[str, ...]
) -> None:  # fmt: skip
    stage = place.run_real(a_run("--children", "--seconds", "0.1"))
    place.wait_for_step(12)
    os.kill(place.find_process(stage, *words), signal.SIGKILL)
    assert stage.wait(60) == 0
    assert [view.charged for view in place.state.generations] == [False, True]
    assert list(stage.folder.glob("gang/g0/node-*/attempt-*")) == []
    assert place.final_loss() == FINAL_LOSS
    assert place.processes() == []


def test_a_killed_launcher_leaves_nothing_and_the_next_one_continues(place: RealPlace) -> None:
    spec = a_run("--children", "--seconds", "0.1")  # slow enough to be met while they run
    stage = place.run_real(spec)
    place.wait_for_step(12)
    stage.signal(signal.SIGKILL)
    wait_until(lambda: place.processes() == [], "the gang is gone with its launcher")
    again = place.run_real(spec)
    assert again.wait(60) == 0
    assert [(view.begin_reason, view.charged) for view in place.state.generations] == [
        ("Start", False), ("LauncherLost", False),
    ]  # fmt: skip
    assert again.outputs["restarts"] == "0"
    assert place.final_loss() == FINAL_LOSS


def test_a_stop_commits_what_the_program_saves_and_the_resumed_run_goes_on_from_there(place: RealPlace) -> None:
    stage = place.run_real(a_run(limits=LIMITS.model_copy(update={"stop_seconds": 20.0})))
    place.wait_for_step(13)
    place.stop_file.touch()
    stage.signal(signal.SIGTERM)
    assert stage.wait(60) == 83
    newest = Ledger(place.store, "exp", "v1").state().newest_first()[0]
    assert newest.step >= 13
    assert newest.step % 10 != 0
    place.stop_file.unlink()
    again = place.run_real(a_run())
    assert again.wait(60) == 0
    assert place.final_loss() == FINAL_LOSS


def test_a_gang_that_was_superseded_is_fenced_and_commits_nothing_more(place: RealPlace) -> None:
    stage = place.run_real(a_run("--seconds", "0.1"))
    place.wait_for_step(12)
    ledger = Ledger(place.store, "exp", "v1")
    release(ledger, run=place.run, outcome="taken away")
    claim(ledger, run="exp-other", owner=this_process(target="local"), is_gone=lambda owner: False)
    term = begin(
        ledger, run="exp-other", generation=0, attempt=0, reason="Start", charged=False, source="step-10-term-1"
    )  # fmt: skip
    before = len(ledger.state().checkpoints)
    assert stage.wait(60) == 83
    assert stage.last_words.startswith("Fenced: ")
    assert ledger.state().term == term
    assert len(ledger.state().checkpoints) == before
    held = ledger.state().claim
    assert held is not None
    assert held.run == "exp-other"


def test_a_program_that_does_not_exist_is_not_restarted(place: RealPlace) -> None:
    stage = place.run_real(a_run(command=("no-such-program",)))
    assert stage.wait(60) == 78
    assert stage.last_words.startswith("ChecksFailed: ")
    assert "no-such-program" in stage.last_words
    assert len(place.state.generations) == 1


def test_a_hanging_rank_is_taken_down_and_named_when_no_restart_is_left(place: RealPlace) -> None:
    limits = LIMITS.model_copy(update={"no_progress_seconds": 2.0})
    stage = place.run_real(a_run("--fault", "0:5:hang", max_restarts=0, limits=limits))
    assert stage.wait(60) == 91
    assert stage.last_words.startswith("Hang: ")
    assert place.processes() == []


def test_a_gang_that_is_not_up_within_limits_start_says_what_was_late(place: RealPlace) -> None:
    stage = place.run_real(a_run(limits=LIMITS.model_copy(update={"start_seconds": 5.0})))
    os.kill(place.wait_for_process(stage, "components.agent", "--node-rank 1"), signal.SIGSTOP)
    assert stage.wait(60) == 83
    assert re.fullmatch(
        r"StartDeadline: nodes? (0 and )?1 did not .* within 5s; mend what is missing, or raise launch.limits.start",
        stage.last_words,
    )
    assert place.processes() == []
