"""Reads and extends one ledger: fold to the end, decide, write at the next position; position taken: again.

The only mutable thing is the store. A decision is a function of the state and may be asked for several times.
"""

import threading
import time
import uuid
from collections.abc import Callable

from components.contracts.clock import now_text
from components.errors import ArgosyError, Transient
from components.ledger.reading import FIRST_PAUSE_SECONDS, LogReader
from components.ledger.records import Change, LedgerDamaged, Record
from components.ledger.snapshots import BLOCK, Line, block_of, encode, last_of, positions_of
from components.ledger.state import LedgerState, fold
from components.storage.base import AlreadyExists, ObjectStore

_WRITE_TRIES = 6
_NUM_READERS = 16


class Ledger:
    """The log of one experiment and model version. Safe to use from several threads and processes at once.

    Every method raises LedgerDamaged when the log cannot be trusted and Transient when the store does not answer.
    `clock` stamps records; `num_readers` bounds the requests under way at once.
    """

    def __init__(
        self, store: ObjectStore, experiment: str, model_version: str, *, pause: Callable[[float], None] = time.sleep,
        clock: Callable[[], str] = now_text, num_readers: int = _NUM_READERS,
    ) -> None:  # fmt: skip
        self.store, self.experiment, self.model_version = store, experiment, model_version
        self._pause, self._clock = pause, clock
        self._reader = LogReader(store, experiment, model_version, pause=pause, num_readers=num_readers)
        self._lock = threading.Lock()
        self._state = LedgerState()
        self._last: Line | None = None
        self._block: list[Line] = []
        """The records of the block that is not full yet."""
        self._unsaved: dict[int, list[Line]] = {}
        """Full blocks that were read record by record."""

    def state(self) -> LedgerState:
        """The state now. The first call reads the whole log, later ones only what was added."""
        with self._lock:
            if self._state.seq == 0:
                lines, wrong = self._reader.read_listed()
                self._take(lines)
                self._unsaved = {block: [lines[seq - 1] for seq in positions_of(block)] for block in wrong}
            added: list[Line] = []
            try:
                while (line := self._reader.read(self._state.seq + len(added) + 1)) is not None:
                    added.append(line)
            finally:
                self._take(added)
            return self._state

    def append(self, decide: Callable[[LedgerState], Change | None], *, from_known: bool = False) -> Record | None:
        """Fold, ask `decide` for a change, write it at the next position; when that is taken, fold and ask again.

        None when `decide` finds nothing to do. What `decide` raises is raised. After a write whose outcome is unknown
        the record is recognised by its nonce, so it is never written twice. With `from_known` the first decision rests
        on what this object has read so far: one request less when nobody else wrote, one more when somebody did.
        """
        if from_known and self._state.seq:
            written = self._try_known(decide)
            if written is not None:
                return written
        while True:
            state = self.state()
            change = decide(state)
            if change is None:
                return None
            written = self._try(state, change)
            if written is not None:
                return written

    def _try_known(self, decide: Callable[[LedgerState], Change | None]) -> Record | None:
        """A refusal, or nothing to do, may rest on old news, so only a change counts."""
        state = self._state
        try:
            change = decide(state)
        except ArgosyError:
            return None
        return self._try(state, change) if change is not None else None

    def _try(self, state: LedgerState, change: Change) -> Record | None:
        with self._lock:
            last = self._last if self._state is state else None
        if last is None and state.seq:
            return None  # another thread has read on meanwhile
        record = Record(
            seq=state.seq + 1, experiment=self.experiment, model_version=self.model_version, nonce=uuid.uuid4().hex,
            at=self._clock(), previous=last.digest if last is not None else None, change=change,
        )  # fmt: skip
        after = fold(state, [record])  # a contradiction is raised here, before it is in the log
        line = Line(record, record.to_bytes())
        if not self._write(line):
            return None
        with self._lock:
            if self._state is state:
                self._remember([line])
                self._state = after
        self._save_snapshots()
        return record

    def _write(self, line: Line) -> bool:
        """Whether the record stands at its position; False when another record does."""
        record, pause = line.record, FIRST_PAUSE_SECONDS
        for attempt in range(_WRITE_TRIES):
            try:
                self.store.create(self._reader.key(record.seq), line.data)
                return True
            except AlreadyExists:
                return self._reader.standing_at(record.seq).record.nonce == record.nonce
            except Transient:
                # Written or not, nobody knows. Only this one position can hold the record, so the same conditional
                # write again is harmless, and whoever stands there settles the question.
                if attempt == _WRITE_TRIES - 1:
                    raise
                self._pause(pause)
                pause *= 2
        raise AssertionError("unreachable")

    def _take(self, lines: list[Line]) -> None:
        if lines:
            self._reader.check_chain(self._last, lines)
            self._state = fold(self._state, (line.record for line in lines))
            self._remember(lines)

    def _remember(self, lines: list[Line]) -> None:
        """Called once the records are folded, so that a damaged one leaves nothing behind."""
        self._last = lines[-1]
        for line in lines:
            self._block.append(line)
            if line.record.seq % BLOCK == 0:
                if len(self._block) == BLOCK:
                    self._unsaved[block_of(line.record.seq)] = self._block
                self._block = []

    def _save_snapshots(self) -> None:
        """Only who may write anyway does so, and only as a favour: without a snapshot reading takes longer."""
        if not self._unsaved:
            return
        newest, is_whole = last_of(block_of(self._state.seq + 1) - 1), True
        try:
            while self._unsaved:
                block, lines = self._unsaved.popitem()
                data = encode(lines)
                if data is not None:
                    self.store.replace(self._reader.snapshot_key(block), data)
                is_whole &= data is not None
            if is_whole:
                self.store.replace(self._reader.pointer_key, f"{newest}\n".encode())
        except ArgosyError:
            return


__all__ = ["Ledger", "LedgerDamaged"]
