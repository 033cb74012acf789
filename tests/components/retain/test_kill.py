"""Real processes, kill -9 at random moments of upload, commit, verify and retain: nothing torn, nothing lost."""

import io
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from components.integrity.verify import verify_checkpoint
from components.ledger.ledger import Ledger
from components.retain.apply import apply_retention
from components.runtime.log import Log
from components.storage.local import LocalStore
from tests.components.ledger.building import NOW, a_ledger, selected
from tests.components.retain.busy import POLICY

ROOT = Path(__file__).parents[3]
NUM_KILLS = 3


def start(role: str, storage: Path, seed: int) -> "subprocess.Popen[bytes]":
    script = ROOT / "tests" / "components" / "retain" / "busy.py"
    return subprocess.Popen(
        [sys.executable, script, role, storage, "gpt-aaaaa", str(seed)],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(storage.parent)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def killed_after_its_first_step(storage: Path, rng: random.Random, seed: int) -> None:
    """A writer and two cleaners, killed at a random moment after the writer's first commit."""
    writer = start("writer", storage, seed)
    cleaners = [start("cleaner", storage, seed) for _ in range(2)]
    assert writer.stdout is not None
    first = writer.stdout.readline()
    time.sleep(rng.random() * 0.4)
    for process in (writer, *cleaners):
        process.kill()
    said = [process.communicate()[1] for process in (writer, *cleaners)]
    assert first, said[0]
    assert [process.returncode for process in (writer, *cleaners)] == [-9, -9, -9], said


def assert_sound(ledger: Ledger, newest_before: int) -> int:
    """Everything usable is whole, and the newest verified step did not go back; returns that step."""
    state = ledger.state()
    for entry in state.newest_first("committed", "verified"):
        faults = verify_checkpoint(ledger.store, entry.folder, entry.manifest_sha256, "tensors")
        assert faults == [], entry
    assert state.newest_first("quarantined") == []
    newest = max((entry.step for entry in state.newest_first("verified")), default=0)
    assert newest >= newest_before
    return newest


@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_is_torn_or_lost_whenever_everybody_is_killed(tmp_path: Path, seed: int) -> None:
    storage, rng, newest = tmp_path / "storage", random.Random(seed), 0
    for number in range(NUM_KILLS):
        killed_after_its_first_step(storage, rng, seed * 100 + number)
        newest = assert_sound(a_ledger(LocalStore(storage)), newest)

    ledger = a_ledger(LocalStore(storage))
    assert ledger.state().term == NUM_KILLS
    apply_retention(ledger, POLICY, run="gpt-aaaaa", log=Log({}, io.StringIO()), now=NOW)
    assert_sound(ledger, newest)
    usable = ledger.state().newest_first("verified") or ledger.state().newest_first("committed")
    assert selected(ledger, "gpt-aaaaa").step == usable[0].step
    present = {item.key.rsplit("/", 1)[0] for item in ledger.store.list("checkpoints/gpt/v1/d-0123456789abcdef")}
    for entry in ledger.state().newest_first("retired"):
        assert entry.folder not in present
