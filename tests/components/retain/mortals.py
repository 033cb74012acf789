"""Writers and cleaners that are killed: this program forks one for each line it is told, so that none loads anything.

A line `{"role": "writer", "storage": uri, "seed": n, "bytes": n}` starts one; an empty line waits until all of them are
dead and is answered with their statuses. Each kills itself with SIGKILL after so many bytes, written or read, of files
or of the connections to S3: in the middle of an upload, a record, a receipt, of reading what it verifies.
"""

import contextlib
import io
import json
import os
import random
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from components.contracts.clock import utc_text
from components.contracts.retention import RetentionPolicy
from components.errors import Transient, VerificationFailed
from components.ledger.ledger import Fenced, Ledger, SourceLost, begin, claim, this_process
from components.ledger.select import still_chosen
from components.retain.apply import apply_retention
from components.runtime.log import Log
from components.storage.base import ObjectInfo, ObjectStore, open_store
from components.storage.local import LocalStore
from components.verify.run import verify_entry
from tests.components.ledger.building import (
    DATA_VERSION,
    LATEST,
    NOW,
    a_checkpoint,
    a_stage,
    safetensors_bytes,
    selected,
)

POLICY = RetentionPolicy(keep_last=2)
RUN = "gpt-aaaaa"


_STEP_BYTES = 20
"""What an operation on files costs by itself, so that one may die before and after it as well as in its middle."""


class Life:
    """So many bytes, then SIGKILL."""

    def __init__(self, num_bytes: int) -> None:
        self.bytes_left = num_bytes

    def spend(self, num_bytes: int) -> None:
        self.bytes_left -= num_bytes
        if self.bytes_left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def last_words(self, data: memoryview, write: Callable[[memoryview], Any]) -> None:
        """Whoever dies of writing `data` writes what it still can."""
        if len(data) >= self.bytes_left:
            write(data[: self.bytes_left])
        self.spend(len(data))


class MortalFile:
    """A file whose writer may die in the middle of writing."""

    def __init__(self, file: BinaryIO, life: Life) -> None:
        self._file, self._life = file, life

    def write(self, data: bytes) -> int:
        view = memoryview(data).cast("B")
        self._life.last_words(view, self._last)
        return self._file.write(view)

    def fileno(self) -> int:
        return self._file.fileno()

    def _last(self, data: memoryview) -> None:
        self._file.write(data)
        self._file.flush()


class MortalStore(LocalStore):
    """A folder; who writes there has `bytes_left` to live."""

    def __init__(self, root: Path, bytes_left: int) -> None:
        super().__init__(root)
        self.life = Life(bytes_left)

    @property
    def bytes_left(self) -> int:
        return self.life.bytes_left

    def _write(self, key: str, fill: Callable[[BinaryIO], None], *, exclusive: bool) -> None:
        super()._write(key, lambda file: fill(MortalFile(file, self.life)), exclusive=exclusive)  # type: ignore[arg-type]


class MortalReading(io.FileIO):
    """A file whose reader may die."""

    def __init__(self, path: str, life: Life) -> None:
        super().__init__(path)
        self._life = life

    def readinto(self, buffer: Any) -> int:
        count = super().readinto(buffer)
        self._life.spend(count or 0)
        return count


class DangerousStore(MortalStore):
    """A folder where one may die of reading, listing and deleting as well."""

    def _write(self, key: str, fill: Callable[[BinaryIO], None], *, exclusive: bool) -> None:
        self.life.spend(_STEP_BYTES)
        super()._write(key, fill, exclusive=exclusive)
        self.life.spend(_STEP_BYTES)

    def open(self, key: str) -> BinaryIO:
        super().open(key).close()  # its errors
        return io.BufferedReader(MortalReading(str(self._path(key)), self.life))

    def list(self, prefix: str, *, after: str = "") -> Iterator[ObjectInfo]:
        self.life.spend(_STEP_BYTES)
        return super().list(prefix, after=after)

    def delete(self, key: str) -> None:
        self.life.spend(_STEP_BYTES)
        super().delete(key)
        self.life.spend(_STEP_BYTES)


def make_connections_mortal(life: Life) -> None:
    """Whatever this process sends or receives takes from its life."""
    send, receive = socket.socket.sendall, socket.socket.recv_into

    def sendall(self: socket.socket, data: Any, *more: Any) -> None:
        view = memoryview(data).cast("B")
        life.last_words(view, lambda last: send(self, last))
        send(self, view, *more)

    def recv_into(self: socket.socket, *arguments: Any) -> int:
        count = receive(self, *arguments)
        life.spend(count)
        return count

    socket.socket.sendall, socket.socket.recv_into = sendall, recv_into  # type: ignore[method-assign]


def write(ledger: Ledger, rng: random.Random) -> None:
    """Select, begin, then publish, commit and mostly verify, for ever."""
    claim(ledger, run=RUN, owner=this_process(target="local"), is_gone=lambda owner: True)
    while True:
        source = selected(ledger, RUN)
        generation = max((begun.generation for begun in ledger.state().begins_of(RUN)), default=-1) + 1
        with contextlib.suppress(SourceLost):  # since it was selected a cleaner retired it, or a better one came
            term = begin(
                ledger, run=RUN, generation=generation, attempt=0, reason="start", charged=False,
                source=source.checkpoint,
                is_still_chosen=still_chosen(source, resume=LATEST, data_version=DATA_VERSION, run=RUN),
            )  # fmt: skip
            break
    with tempfile.TemporaryDirectory() as folder:
        for step in range(source.step + 10, 1_000_000, 10):
            layers = {f"layer-{number}": [float(step)] * 100 for number in range(rng.randrange(1, 8))}
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
            verify_entry(ledger, entry, "tensors", Log({}, io.StringIO()), workers=1)


def clean(ledger: Ledger, rng: random.Random) -> None:
    """Verify what is not, apply retention, for ever."""
    while True:
        verify(ledger)
        apply_retention(ledger, POLICY, run=RUN, log=Log({}, io.StringIO()), now=NOW, pause=lambda seconds: None)


def live(order: dict[str, Any]) -> None:
    """The life of one child."""
    store: ObjectStore = open_store(order["storage"])
    if isinstance(store, LocalStore):
        store = DangerousStore(store.root, order["bytes"])
    else:
        make_connections_mortal(Life(order["bytes"]))
    ledger = Ledger(store, "gpt", "v1", clock=lambda: utc_text(NOW), pause=lambda seconds: None)
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
        order = json.loads(line)
        open_store(order["storage"])  # kept for the next ones: a client takes longer to make than many a life
        if os.fork() == 0:
            code = 1
            try:
                live(order)
            except Fenced:
                code = 0  # a writer that outlived its kill by another one's BEGIN
            except BaseException as error:
                print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            finally:
                os._exit(code)


if __name__ == "__main__":
    main()
