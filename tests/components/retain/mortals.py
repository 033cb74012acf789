"""Writers and cleaners that are killed: this program forks one for each line it is told, so that none loads anything.

A line `{"role": "writer", "storage": uri, "seed": n, "last_byte": n or null}` is answered with the pid; an empty line
waits for all of them and is answered with their statuses. With `last_byte` the process kills itself with SIGKILL in the
middle of a write, after so many bytes; otherwise whoever started it kills it whenever it likes.
"""

import contextlib
import io
import json
import os
import random
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from components.contracts.clock import utc_text
from components.contracts.retention import RetentionPolicy
from components.errors import Transient, VerificationFailed
from components.ledger.ledger import Fenced, Ledger, SourceLost, begin, claim, this_process
from components.retain.apply import apply_retention
from components.runtime.log import Log
from components.storage.base import ObjectStore, open_store
from components.storage.local import LocalStore
from components.verify.run import verify_entry
from tests.components.ledger.building import NOW, a_checkpoint, a_stage, safetensors_bytes, selected

POLICY = RetentionPolicy(keep_last=2)
RUN = "gpt-aaaaa"


class MortalFile:
    """A file whose writer dies after so many bytes."""

    def __init__(self, file: BinaryIO, store: "MortalStore") -> None:
        self._file, self._store = file, store

    def write(self, data: bytes) -> int:
        view = memoryview(data).cast("B")
        if len(view) >= self._store.bytes_left:
            self._file.write(view[: self._store.bytes_left])
            self._file.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        self._store.bytes_left -= len(view)
        return self._file.write(view)


class MortalStore(LocalStore):
    """A folder; who writes there has `bytes_left` to live."""

    def __init__(self, root: Path, bytes_left: int) -> None:
        super().__init__(root)
        self.bytes_left = bytes_left

    def _write(self, key: str, fill: Callable[[BinaryIO], None], *, exclusive: bool) -> None:
        super()._write(key, lambda file: fill(MortalFile(file, self)), exclusive=exclusive)  # type: ignore[arg-type]


def write(ledger: Ledger, rng: random.Random) -> None:
    """Select, begin, then publish, commit and mostly verify, for ever."""
    claim(ledger, run=RUN, owner=this_process(target="local"), is_gone=lambda owner: True)
    while True:
        source = selected(ledger, RUN)
        generation = max((begun.generation for begun in ledger.state().begins_of(RUN)), default=-1) + 1
        with contextlib.suppress(SourceLost):  # retired by a cleaner since it was selected
            term = begin(
                ledger, run=RUN, generation=generation, attempt=0, reason="start", charged=False,
                source=source.checkpoint,
            )  # fmt: skip
            break
    with tempfile.TemporaryDirectory() as folder:
        for step in range(source.step + 10, 1_000_000, 10):
            layers = {f"layer-{number}": [float(step)] * 500 for number in range(rng.randrange(1, 8))}
            stage = a_stage(
                Path(folder) / str(step), dict.fromkeys(("a.safetensors", "b.safetensors"), safetensors_bytes(layers))
            )
            a_checkpoint(ledger, stage, step=step, term=term, run=RUN, parent=source.checkpoint)
            if rng.random() < 0.7:
                verify(ledger)


def verify(ledger: Ledger) -> None:
    """The newest one that is not."""
    for entry in ledger.state().newest_first("committed")[:1]:
        with contextlib.suppress(VerificationFailed):  # retired by the others while this one was reading
            verify_entry(ledger, entry, "tensors", Log({}, io.StringIO()))


def clean(ledger: Ledger, rng: random.Random) -> None:
    """Verify what is not, apply retention, for ever."""
    while True:
        verify(ledger)
        apply_retention(ledger, POLICY, run=RUN, log=Log({}, io.StringIO()), now=NOW, pause=lambda seconds: None)


def live(order: dict[str, Any]) -> None:
    """The life of one child."""
    store: ObjectStore = open_store(order["storage"])
    if order["last_byte"] is not None and isinstance(store, LocalStore):
        store = MortalStore(store.root, order["last_byte"])
    ledger = Ledger(store, "gpt", "v1", clock=lambda: utc_text(NOW), pause=lambda seconds: None)
    ledger.state()
    print(os.getpid(), flush=True)  # from here on its life counts
    rng = random.Random(order["seed"])
    while True:
        with contextlib.suppress(Transient):
            write(ledger, rng) if order["role"] == "writer" else clean(ledger, rng)


def load_everything() -> None:
    """What is otherwise loaded when it is first needed, by each child anew."""
    import components.storage.s3
    import components.storage.s3_client  # noqa: F401

    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(LocalStore(Path(folder) / "storage"), "gpt", "v1")
        claim(ledger, run=RUN, owner=this_process(target="local"), is_gone=lambda owner: True)
        term = begin(ledger, run=RUN, generation=0, attempt=0, reason="start", charged=False, source=None)
        a_checkpoint(ledger, a_stage(Path(folder) / "stage"), step=10, term=term, run=RUN)
        verify(ledger)


def main() -> None:
    load_everything()
    for line in sys.stdin:
        if not line.strip():
            statuses = []
            with contextlib.suppress(ChildProcessError):
                while True:
                    statuses.append(os.waitstatus_to_exitcode(os.wait()[1]))
            print(json.dumps(statuses), flush=True)
            continue
        if os.fork() == 0:
            code = 1
            try:
                live(json.loads(line))
            except Fenced:
                code = 0  # a writer that outlived its kill by another one's BEGIN
            except BaseException as error:
                print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            finally:
                os._exit(code)


if __name__ == "__main__":
    main()
