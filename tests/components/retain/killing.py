"""Rounds of writers and cleaners that are killed with SIGKILL, and what must be true after each."""

import contextlib
import io
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from components.integrity.verify import verify_checkpoint
from components.ledger.ledger import Ledger
from components.retain.apply import apply_retention
from components.runtime.log import Log
from components.storage.base import ObjectStore
from tests.components.ledger.building import DATA_VERSION, NOW, a_ledger, selected
from tests.components.retain.mortals import POLICY, RUN

ROOT = Path(__file__).parents[3]
_MAX_LIFE_SECONDS = 0.8
_MAX_BYTES = 400_000


class Mortals:
    """The program that forks those who are to be killed. A context manager."""

    def __init__(self, folder: Path, environment: Mapping[str, str] | None = None) -> None:
        self._errors = (folder / "mortals.err").open("w+")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.components.retain.mortals"], cwd=ROOT, text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=self._errors,
            env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(folder), **(environment or {})},
        )  # fmt: skip

    def __enter__(self) -> "Mortals":
        return self

    def __exit__(self, *exception: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        self._errors.close()

    def start(self, role: str, storage: str, *, seed: int, last_byte: int | None) -> int:
        return int(self._asked({"role": role, "storage": storage, "seed": seed, "last_byte": last_byte}))

    def statuses(self) -> Sequence[int]:
        """Of all that were started since the last time, once they are dead."""
        found: list[int] = json.loads(self._asked(None))
        return found

    def said(self) -> str:
        self._errors.seek(0)
        return self._errors.read()

    def _asked(self, order: dict[str, Any] | None) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write((json.dumps(order) if order is not None else "") + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline()


def kill_all_at_a_random_moment(mortals: Mortals, storage: str, rng: random.Random) -> None:
    """A writer and two cleaners; some die by themselves in the middle of a byte stream, the rest after a while."""
    children = []
    for role in ("writer", "cleaner", "cleaner"):
        last_byte = rng.randrange(1, rng.choice([600, 3000, _MAX_BYTES])) if rng.random() < 0.3 else None
        children.append(mortals.start(role, storage, seed=rng.randrange(1 << 30), last_byte=last_byte))
    time.sleep(rng.random() * _MAX_LIFE_SECONDS)
    for pid in children:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert set(mortals.statuses()) <= {-9, 0}, mortals.said()


def assert_sound(ledger: Ledger, newest_before: int) -> int:
    """Everything usable is whole, and the newest verified step did not go back; returns that step."""
    state = ledger.state()
    for entry in state.newest_first("committed", "verified"):
        faults = verify_checkpoint(ledger.store, entry.folder, entry.manifest_sha256, "tensors")
        assert faults == [], entry
    assert state.newest_first("quarantined") == []
    newest = max((entry.step for entry in state.newest_first("verified")), default=0)
    assert newest >= newest_before
    assert newest > 0 or not any(entry.level for entry in state.checkpoints.values())
    return newest


def run_rounds(mortals: Mortals, store: ObjectStore, *, seed: int, num_rounds: int) -> Ledger:
    """So many kills on one storage, each followed by a look at everything; then the survivors tidy up."""
    rng, newest = random.Random(seed), 0
    for number in range(num_rounds):
        kill_all_at_a_random_moment(mortals, store.uri, rng)
        try:
            newest = assert_sound(a_ledger(store), newest)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, round {number}: {error}") from error
    ledger = a_ledger(store)
    apply_retention(ledger, POLICY, run=RUN, log=Log({}, io.StringIO()), now=NOW)
    assert_sound(ledger, newest)
    usable = ledger.state().newest_first("verified") or ledger.state().newest_first("committed")
    if usable:
        assert selected(ledger, RUN).step == usable[0].step
    present = {item.key.rsplit("/", 1)[0] for item in store.list(f"checkpoints/gpt/v1/{DATA_VERSION}")}
    assert not present & {entry.folder for entry in ledger.state().newest_first("retired")}
    return ledger
