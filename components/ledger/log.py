"""Reads and extends one ledger: fold to the end, decide, write at the next position; position taken: again.

The only mutable thing is the store. A decision is a function of the state and may be asked for several times.
"""

import re
import threading
import time
import uuid
from collections.abc import Callable

from components.contracts.clock import now_text
from components.contracts.layout import ledger_folder, ledger_record_key
from components.errors import Transient
from components.ledger.records import Change, LedgerDamaged, Record, read_record
from components.ledger.state import LedgerState, fold
from components.storage.base import AlreadyExists, ObjectNotFound, ObjectStore

_RECORD_NAME = re.compile(r"^(\d+)\.json$")
_MAX_RECORD_BYTES = 16 << 20
_WRITE_TRIES = 6
_STALE_TRIES = 8
_FIRST_PAUSE_SECONDS = 0.05


class Ledger:
    """The log of one experiment and model version. Safe to use from several threads and processes at once.

    Every method raises LedgerDamaged when the log cannot be trusted and Transient when the store does not answer.
    """

    def __init__(
        self, store: ObjectStore, experiment: str, model_version: str, *, pause: Callable[[float], None] = time.sleep
    ) -> None:
        self.store, self.experiment, self.model_version = store, experiment, model_version
        self._pause = pause
        self._lock = threading.Lock()
        self._state = LedgerState()

    def state(self) -> LedgerState:
        """The state now. The first call reads the whole log, later ones only what was added."""
        with self._lock:
            if self._state.seq == 0:
                self._read_listed()
            self._read_on()
            return self._state

    def append(self, decide: Callable[[LedgerState], Change | None]) -> Record | None:
        """Fold, ask `decide` for a change, write it at the next position; when that is taken, fold and ask again.

        None when `decide` finds nothing to do. What `decide` raises is raised. After a write whose outcome is unknown
        the record is recognised by its nonce, so it is never written twice.
        """
        while True:
            state = self.state()
            change = decide(state)
            if change is None:
                return None
            record = Record(
                seq=state.seq + 1, experiment=self.experiment, model_version=self.model_version,
                nonce=uuid.uuid4().hex, at=now_text(), change=change,
            )  # fmt: skip
            fold(state, [record])  # a contradiction is raised here, before it is in the log
            if self._write(record):
                return record

    def _write(self, record: Record) -> bool:
        """Whether `record` stands at its position; False when another record does."""
        key, data, pause = self._key(record.seq), record.to_bytes(), _FIRST_PAUSE_SECONDS
        for attempt in range(_WRITE_TRIES):
            try:
                self.store.create(key, data)
                return True
            except AlreadyExists:
                return self._standing_at(record.seq).nonce == record.nonce
            except Transient:
                # Written or not, nobody knows. Only this one position can hold the record, so the same conditional
                # write again is harmless, and whoever stands there settles the question.
                if attempt == _WRITE_TRIES - 1:
                    raise
                self._pause(pause)
                pause *= 2
        raise AssertionError("unreachable")

    def _standing_at(self, seq: int) -> Record:
        pause = _FIRST_PAUSE_SECONDS
        for _ in range(_STALE_TRIES):
            record = self._read(seq)
            if record is not None:
                return record
            self._pause(pause)  # a network file system may remember for a moment that the name did not exist
            pause *= 2
        where = self.store.uri_of(self._key(seq))
        raise Transient("StaleStorage", f"{where} exists for writing but not for reading", "check the file server")

    def _read_listed(self) -> None:
        """Read every record that a listing shows; only a listing can show that one in the middle is missing."""
        positions = []
        for item in self.store.list(ledger_folder(self.experiment, self.model_version)):
            name = item.key.rpartition("/")[2]
            match = _RECORD_NAME.match(name)
            if match is None:
                continue  # not a record, so it says nothing
            if self._key(int(match[1])) != item.key or int(match[1]) == 0:
                raise LedgerDamaged(
                    "ForeignRecord", f"{self.store.uri_of(item.key)} is not how a record is called",
                    "move it out of the log folder",
                )  # fmt: skip
            positions.append(int(match[1]))
        for expected, seq in enumerate(positions, start=1):
            if seq != expected:
                where = self.store.uri_of(self._key(expected))
                raise LedgerDamaged(
                    "MissingRecord", f"{where} is missing, though {len(positions) - expected + 1} later ones exist",
                    "restore it from a copy; nothing was changed or deleted",
                )  # fmt: skip
        if positions:
            self._state = fold(self._state, (self._standing_at(seq) for seq in positions))

    def _read_on(self) -> None:
        added: list[Record] = []
        while (record := self._read(self._state.seq + len(added) + 1)) is not None:
            added.append(record)
        if added:
            self._state = fold(self._state, added)

    def _read(self, seq: int) -> Record | None:
        key = self._key(seq)
        try:
            with self.store.open(key) as stream:
                data = stream.read(_MAX_RECORD_BYTES + 1)
        except ObjectNotFound:
            return None
        where = f"{self.store.uri}/{key}"
        if len(data) > _MAX_RECORD_BYTES:
            raise LedgerDamaged("TornRecord", f"{where} is larger than any record", "restore this object from a copy")
        record = read_record(data, where=where)
        if (record.experiment, record.model_version, record.seq) != (self.experiment, self.model_version, seq):
            seen = f"{where} holds record {record.seq} of {record.experiment}/{record.model_version}"
            raise LedgerDamaged("ForeignRecord", seen, "two experiments share this path, or a log was copied: undo it")
        return record

    def _key(self, seq: int) -> str:
        return ledger_record_key(self.experiment, self.model_version, seq=seq)
