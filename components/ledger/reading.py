"""Reads the records of one log, one by one or in blocks, and checks that they are one chain."""

import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from components.contracts.layout import (
    ledger_folder,
    ledger_newest_snapshot_key,
    ledger_record_key,
    ledger_snapshot_key,
)
from components.errors import ArgosyError, Transient
from components.ledger.records import LedgerDamaged, Record, read_record
from components.ledger.snapshots import BLOCK, Line, block_of, decode, last_of, positions_of
from components.storage.base import ObjectNotFound, ObjectStore

_RECORD_NAME = re.compile(r"^(\d+)\.json$")
_SNAPSHOT_NAME = re.compile(r"^snapshot-(\d{12})\.jsonl$")
_POINTER = re.compile(rb"(\d{1,12})\n")
_MAX_RECORD_BYTES = 16 << 20
_MAX_SNAPSHOT_BYTES = 256 << 20
_MAX_POINTER_BYTES = 64
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

    @property
    def pointer_key(self) -> str:
        return ledger_newest_snapshot_key(self.experiment, self.model_version)

    def read_listed(self) -> tuple[list[Line], list[int]]:
        """Every record up to the last one that one listing shows, and the blocks that have no right snapshot.

        Only a listing can show that a record in the middle is missing. It begins at the newest snapshot when somebody
        noted which that is: what lies before is proved by the chain, whether or not its objects are still there. When
        the note is wrong, or anything before it is not proved, the whole folder is listed and counts.
        """
        newest = self._noted()
        found = self._read_from(newest) if newest else None
        if found is None:
            found = self._read_from(1)
        assert found is not None
        return found

    def _read_from(self, first: int) -> tuple[list[Line], list[int]] | None:
        """With a listing that begins at record `first`; None when that does not suffice. For 1 it always does."""
        num_records, snapshots = self._listed(first)
        num_blocks = num_records // BLOCK
        if first > 1 and (not num_records or not snapshots.issuperset(range(first // BLOCK))):
            return None
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
                if block < first // BLOCK:
                    return None
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

    def _noted(self) -> int:
        """The last record of the newest snapshot, as somebody noted it; 0 when there is no note to go by."""
        try:
            with self._store.open(self.pointer_key) as stream:
                note = _POINTER.fullmatch(stream.read(_MAX_POINTER_BYTES))
        except (ArgosyError, OSError):
            return 0
        seq = int(note[1]) if note else 0
        return seq if seq % BLOCK == 0 else 0

    def _listed(self, first: int) -> tuple[int, set[int]]:
        """The last record of those from `first` on, 0 when that one is not there; and the blocks with a snapshot."""
        positions, snapshots = [], set()
        after = self.key(first - 1) if first > 1 else ""
        for item in self._store.list(ledger_folder(self.experiment, self.model_version), after=after):
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
        positions.sort()
        if first > 1 and positions[:1] != [first]:
            return 0, snapshots
        for number, seq in enumerate(positions):
            if seq != first + number:
                where = self._store.uri_of(self.key(first + number))
                raise LedgerDamaged(
                    "MissingRecord", f"{where} is missing, though {len(positions) - number} later ones exist",
                    "restore it from a copy; nothing was changed or deleted",
                )  # fmt: skip
        return positions[-1] if positions else 0, snapshots

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
