"""Rounds of writers and cleaners that die of SIGKILL at a random byte, and what must be true after each."""

import io
import json
import random
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from components.integrity.verify import verify_checkpoint
from components.ledger.ledger import Ledger, begin, claim, this_process
from components.retain.apply import apply_retention
from components.runtime.log import Log
from components.storage.base import ObjectStore
from tests.components.ledger.building import DATA_VERSION, NOW, a_checkpoint, a_ledger, a_stage, selected
from tests.components.retain.mortals import POLICY, RUN
from tests.forking import ForkingProgram

_LIVES_BYTES = (3_000, 30_000, 60_000)


class Mortals(ForkingProgram):
    """The program that forks those who are to die. A context manager."""

    def __init__(self, folder: Path, environment: Mapping[str, str] | None = None) -> None:
        super().__init__("tests.components.retain.mortals", folder, temporary=folder, environment=environment or {})

    def start(self, role: str, storage: str, *, seed: int, num_bytes: int) -> None:
        self.tell(json.dumps({"role": role, "storage": storage, "seed": seed, "bytes": num_bytes}))

    def statuses(self) -> Sequence[int]:
        """Of all that were started since the last time, once they are dead."""
        self.tell("")
        found: list[int] = self.answer()
        return found


def let_all_die_at_a_random_byte(mortals: Mortals, store: ObjectStore, rng: random.Random) -> None:
    """A writer and two cleaners beside each other, each until its own end."""
    # A request to S3 takes some 2 kB for its headers alone, a record on disk 500 bytes.
    scale = 1 if store.local_path("any") is not None else 5
    for role in ("writer", "cleaner", "cleaner"):
        num_bytes = rng.randrange(1, rng.choice(_LIVES_BYTES)) * scale
        mortals.start(role, store.uri, seed=rng.randrange(1 << 30), num_bytes=num_bytes)
    statuses = mortals.statuses()
    assert len(statuses) == 3, mortals.said()
    assert set(statuses) <= {-9, 0}, mortals.said()


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


def go_on(ledger: Ledger) -> int:
    """Whatever happened, the next START resumes, commits and verifies; returns its step."""
    claim(ledger, run=RUN, owner=this_process(target="local"), is_gone=lambda owner: True)
    source = selected(ledger, RUN)
    generation = max((begun.generation for begun in ledger.state().begins_of(RUN)), default=-1) + 1
    term = begin(
        ledger, run=RUN, generation=generation, attempt=0, reason="start", charged=False, source=source.checkpoint
    )
    with tempfile.TemporaryDirectory() as folder:
        a_checkpoint(ledger, a_stage(Path(folder)), step=source.step + 10, term=term, run=RUN, verified="tensors")
    return source.step + 10


def run_rounds(mortals: Mortals, store: ObjectStore, *, seed: int, num_rounds: int) -> Ledger:
    """So many kills on one storage, each followed by a look at everything; then a survivor goes on and tidies up."""
    rng, newest = random.Random(seed), 0
    for number in range(num_rounds):
        let_all_die_at_a_random_byte(mortals, store, rng)
        try:
            newest = assert_sound(a_ledger(store), newest)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, round {number}: {error}") from error
    ledger = a_ledger(store)
    newest = go_on(ledger)
    apply_retention(ledger, POLICY, run=RUN, log=Log({}, io.StringIO()), now=NOW)
    assert_sound(ledger, newest)
    assert selected(ledger, RUN).step == newest
    present = {item.key.rsplit("/", 1)[0] for item in store.list(f"checkpoints/gpt/v1/{DATA_VERSION}")}
    assert not present & {entry.folder for entry in ledger.state().newest_first("retired")}
    return ledger
