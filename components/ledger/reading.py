"""Reads the records of one log, one by one or in blocks, and checks that they are one chain."""

import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from components.contracts.layout import ledger_folder, ledger_record_key, ledger_snapshot_key
from components.errors import ArgosyError, Transient
from components.ledger.records import LedgerDamaged, Record, read_record
from components.ledger.snapshots import BLOCK, Line, block_of, decode, last_of, positions_of
from components.storage.base import ObjectNotFound, ObjectStore

_RECORD_NAME = re.compile(r"^(\d+)\.json$")
_SNAPSHOT_NAME = re.compile(r"^snapshot-(\d{12})\.jsonl$")
_MAX_RECORD_BYTES = 16 << 20
_MAX_SNAPSHOT_BYTES = 256 << 20
_STALE_TRIES = 8
FIRST_PAUSE_SECONDS = 0.05
_FEW = 4
"""So few objects are read one after another: starting threads takes longer."""

Item = TypeVar("Item")


class LogReader:
    """Stateless but for the store. `num_readers` requests at most are under way at once."""

    def __init__(
        self, store: ObjectStore, experiment: str, model_version: str, *, pause: Callable[[float], None],
        num_readers: int,
    ) -> None:  # fmt: skip
        self._store, self.experiment, self.model_version = store, experiment, model_version
        self._pause, self._num_readers = pause, num_readers

    def key(self, seq: int) -> str:
        return ledger_record_key(self.experiment, self.model_version, seq=seq)

    def snapshot_key(self, block: int) -> str:
        return ledger_snapshot_key(self.experiment, self.model_version, seq=last_of(block))

    def read_listed(self) -> tuple[list[Line], list[int]]:
        """Every record that one listing shows, and the blocks that have no right snapshot.

        Only a listing can show that a record in the middle is missing.
        """
        num_records, snapshots = self._listed()
        num_blocks = num_records // BLOCK
        blocks: dict[int, list[Line] | None] = dict.fromkeys(range(num_blocks))
        present = [block for block in blocks if block in snapshots]
        blocks.update(zip(present, self._each(self._snapshot, present), strict=True))
        tail = range(num_blocks * BLOCK + 1, num_records + 1)
        # Without a tail the last record itself is what proves the last block.
        lines = self._each(self.standing_at, tail or range(num_records, num_records + 1)) if num_records else []
        expected = lines[0].record.previous if tail else lines[0].digest if lines else None
        pieces, wrong = [lines if tail else []], []
        for block in reversed(range(num_blocks)):
            found = blocks[block]
            if found is None or found[-1].digest != expected:
                found = self._each(self.standing_at, positions_of(block))
                wrong.append(block)
            expected = found[0].record.previous
            pieces.append(found)
        return [line for piece in reversed(pieces) for line in piece], wrong

    def read(self, seq: int) -> Line | None:
        """Record `seq`, or None when it does not exist yet. Raises LedgerDamaged."""
        key = self.key(seq)
        try:
            with self._store.open(key) as stream:
                data = stream.read(_MAX_RECORD_BYTES + 1)
        except ObjectNotFound:
            return None
        return Line(self._parsed(data, seq, key), data)

    def standing_at(self, seq: int) -> Line:
        """Record `seq`, which is known to exist."""
        pause = FIRST_PAUSE_SECONDS
        for _ in range(_STALE_TRIES):
            line = self.read(seq)
            if line is not None:
                return line
            self._pause(pause)  # a network file system may remember for a moment that the name did not exist
            pause *= 2
        where = self._store.uri_of(self.key(seq))
        raise Transient("StaleStorage", f"{where} exists for writing but not for reading", "check the file server")

    def check_chain(self, before: Line | None, lines: Iterable[Line]) -> None:
        """Raises LedgerDamaged when a record names another one before it than the one that is there."""
        for line in lines:
            named = line.record.previous
            if before is not None and named is not None and named != before.digest:
                raise LedgerDamaged(
                    "BrokenChain",
                    f"{self._store.uri_of(self.key(before.record.seq))} is not the record that"
                    f" {self.key(line.record.seq).rpartition('/')[2]} was written after: one of the two was replaced",
                    "restore the log from a copy; nothing was changed or deleted",
                )
            before = line

    def _listed(self) -> tuple[int, set[int]]:
        """How many records there are, and the blocks that have a snapshot."""
        positions, snapshots = [], set()
        for item in self._store.list(ledger_folder(self.experiment, self.model_version)):
            name = item.key.rpartition("/")[2]
            snapshot = _SNAPSHOT_NAME.match(name)
            if snapshot is not None and int(snapshot[1]) and int(snapshot[1]) % BLOCK == 0:
                snapshots.add(block_of(int(snapshot[1])))
            match = _RECORD_NAME.match(name)
            if match is None:
                continue  # not a record, so it says nothing
            seq = int(match[1])
            if seq == 0 or name != f"{seq:012d}.json":
                raise LedgerDamaged(
                    "ForeignRecord", f"{self._store.uri_of(item.key)} is not how a record is called",
                    "move it out of the log folder",
                )  # fmt: skip
            positions.append(seq)
        for expected, seq in enumerate(sorted(positions), start=1):
            if seq != expected:
                where = self._store.uri_of(self.key(expected))
                raise LedgerDamaged(
                    "MissingRecord", f"{where} is missing, though {len(positions) - expected + 1} later ones exist",
                    "restore it from a copy; nothing was changed or deleted",
                )  # fmt: skip
        return len(positions), snapshots

    def _snapshot(self, block: int) -> list[Line] | None:
        """A copy that cannot be read is as good as none: the records themselves are there."""
        try:
            with self._store.open(self.snapshot_key(block)) as stream:
                data = stream.read(_MAX_SNAPSHOT_BYTES)
        except (ArgosyError, OSError):
            return None
        return decode(data, block, self._parsed)

    def _parsed(self, data: bytes, seq: int, key: str = "") -> Record:
        where = f"{self._store.uri}/{key or self.key(seq)}"
        if len(data) > _MAX_RECORD_BYTES:
            raise LedgerDamaged("TornRecord", f"{where} is larger than any record", "restore this object from a copy")
        record = read_record(data, where=where)
        if (record.experiment, record.model_version, record.seq) != (self.experiment, self.model_version, seq):
            seen = f"{where} holds record {record.seq} of {record.experiment}/{record.model_version}"
            raise LedgerDamaged("ForeignRecord", seen, "two experiments share this path, or a log was copied: undo it")
        return record

    def _each(self, read: Callable[[int], Item], numbers: Sequence[int]) -> list[Item]:
        """Several at once where each one is a request; a local file is read faster than a thread is woken."""
        is_local = not numbers or self._store.local_path(self.key(1)) is not None
        if is_local or len(numbers) <= _FEW or self._num_readers == 1:
            return [read(number) for number in numbers]
        with ThreadPoolExecutor(min(self._num_readers, len(numbers)), "ledger") as readers:
            return list(readers.map(read, numbers))
