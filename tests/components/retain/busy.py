"""A process that works on a ledger until it is killed: `busy.py writer|cleaner <storage> <run> <seed>`.

Writer: select, begin, then publish, commit, verify for ever. Cleaner: verify what is not, apply retention, for ever.
"""

import contextlib
import io
import random
import sys
import tempfile
from pathlib import Path

from components.contracts.retention import RetentionPolicy
from components.errors import VerificationFailed
from components.ledger.ledger import Ledger, begin, claim, is_gone, this_process
from components.retain.apply import apply_retention
from components.runtime.log import Log
from components.storage.local import LocalStore
from components.verify.run import verify_entry
from tests.components.ledger.building import NOW, a_checkpoint, a_ledger, a_stage, safetensors_bytes, selected

POLICY = RetentionPolicy(keep_last=2)


def write(ledger: Ledger, run: str, rng: random.Random) -> None:
    claim(ledger, run=run, owner=this_process(target="local"), is_gone=is_gone)
    generation = max((begun.generation for begun in ledger.state().begins_of(run)), default=-1) + 1
    source = selected(ledger, run)
    term = begin(
        ledger, run=run, generation=generation, attempt=0, reason="start", charged=False, source=source.checkpoint
    )
    with tempfile.TemporaryDirectory() as folder:
        for step in range(source.step + 10, 1_000_000, 10):
            weights = safetensors_bytes(
                {f"layer-{number}": [float(step)] * 2000 for number in range(rng.randrange(1, 8))}
            )
            stage = a_stage(Path(folder) / str(step), {f"rank-{rank}.safetensors": weights for rank in range(3)})
            a_checkpoint(ledger, stage, step=step, term=term, run=run, parent=source.checkpoint)
            print(step, flush=True)
            if rng.random() < 0.7:
                verify(ledger)


def verify(ledger: Ledger) -> None:
    for entry in ledger.state().newest_first("committed")[:1]:
        with contextlib.suppress(VerificationFailed):  # verified and retired by the others while this one was reading
            verify_entry(ledger, entry, "tensors", Log({}, io.StringIO()))


def clean(ledger: Ledger, run: str) -> None:
    while True:
        verify(ledger)
        apply_retention(ledger, POLICY, run=run, log=Log({}, io.StringIO()), now=NOW)


if __name__ == "__main__":
    _, role, storage, run, seed = sys.argv
    if role == "writer":
        write(a_ledger(LocalStore(Path(storage))), run, random.Random(int(seed)))
    else:
        clean(a_ledger(LocalStore(Path(storage))), run)
