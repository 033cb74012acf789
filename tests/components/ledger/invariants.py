"""The store of a simulated world, which checks the invariants of the protocol whenever it changes.

I1 once one was verified, a verified, unretired, intact one exists      I2 nothing torn is ever selected
I3 the newest intact verified step decreases by damage alone            I4 no COMMIT of a term after a later BEGIN
I5 the source of a running term stays until that term has a verified    I6 written once; acting twice is once
I7 retired is final; deleted is only what is retired or fenced          I8 the state is a function of the log
I9 a term begins where a selection would then: an older one that still commits is not passed over
"""

import struct
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from random import Random

from components.ledger.records import Begin, Commit, Record, Verified, read_record
from components.ledger.snapshots import Line, decode
from components.ledger.state import CheckpointEntry, LedgerState, fold
from components.storage.base import ObjectInfo
from tests.components.ledger.memory import MemoryStore

LOG = "checkpoints/gpt/v1/log/"

NAN = struct.pack("<f", float("nan"))


class Violation(AssertionError):
    """An invariant does not hold."""


@lru_cache(maxsize=4096)
def cached_record(data: bytes, *, where: str) -> Record:
    """`read_record`, which is a pure function: every actor of a world reads the same records."""
    return read_record(data, where=where)


class CheckedStore(MemoryStore):
    """Objects in memory, what the log says about them, and which checkpoints are still what was committed."""

    def __init__(self, rng: Random) -> None:
        super().__init__()
        self._rng = rng
        self.state = LedgerState()
        self.log: list[Record] = []
        self.last: Line | None = None
        self._committed: dict[str, dict[str, bytes]] = {}
        """By folder: its objects when it was committed."""
        self._damaged: set[str] = set()
        self.num_verified_ever = 0
        self._best_step = 0
        self._generations: set[int] = set()
        self.shuffles = False

    def copy(self, rng: Random) -> "CheckedStore":
        """The same past with another future."""
        other = CheckedStore(rng)
        other.objects, other.state, other.log = dict(self.objects), self.state, list(self.log)
        other._committed = {folder: dict(objects) for folder, objects in self._committed.items()}
        other.last = self.last
        other.num_verified_ever, other._best_step = self.num_verified_ever, self._best_step
        other._generations = set(self._generations)
        return other

    def local_path(self, key: str) -> Path | None:
        return Path("/nowhere")  # read one by one, in this thread

    def list(self, prefix: str, *, after: str = "") -> Iterator[ObjectInfo]:
        found = list(super().list(prefix, after=after))
        if self.shuffles:
            self._rng.shuffle(found)
            # The log stays where it belongs: a sweep rests on that to leave it out, and would leave orphans otherwise.
            found.sort(key=lambda item: (not item.key < LOG) + (item.key > LOG and not item.key.startswith(LOG)))
        return iter(found)

    def create(self, key: str, data: bytes | bytearray) -> None:
        super().create(key, data)
        if key.startswith(LOG):
            self._append(key, bytes(data))

    def replace(self, key: str, data: bytes) -> None:
        is_snapshot = key.startswith(f"{LOG}snapshot-") and decode(data, 0, lambda part, seq: self.log[seq - 1])
        if not is_snapshot and key in self.objects:
            raise Violation(f"I6: {key} was replaced")
        if is_snapshot:
            super().replace(key, data)
        else:
            self.create(key, data)

    def delete(self, key: str) -> None:
        if key not in self.objects:
            return
        owner = next((entry for entry in self.state.checkpoints.values() if key.startswith(f"{entry.folder}/")), None)
        if key.startswith(LOG):
            raise Violation(f"I7: {key} of the log was deleted")
        if owner is not None and owner.status != "retired":
            raise Violation(f"I7: {key} of {owner.checkpoint}, which is {owner.status}, was deleted")
        if owner is None and int(key.split("/term-")[1].split("/")[0]) >= self.state.term:
            raise Violation(f"I7: {key} was deleted while its term may still commit")
        super().delete(key)
        if owner is not None:
            self._damaged.add(owner.folder)

    def is_intact(self, entry: CheckpointEntry) -> bool:
        return entry.folder not in self._damaged

    def good(self) -> Sequence[CheckpointEntry]:
        return [entry for entry in self.state.newest_first("verified") if self.is_intact(entry)]

    def damage(self, entry: CheckpointEntry, kind: str) -> None:
        """Flip a bit of, cut, or lose one of the files of `entry`."""
        key = self._rng.choice(sorted(self._committed[entry.folder]))
        data = bytearray(self.objects[key])
        if kind == "lose":
            del self.objects[key]
        elif kind == "cut":
            self.objects[key] = bytes(data[: self._rng.randrange(len(data))])
        else:
            data[self._rng.randrange(len(data))] ^= 1 << self._rng.randrange(8)
            self.objects[key] = bytes(data)
        self._damaged.add(entry.folder)
        self._best_step = max((entry.step for entry in self.good()), default=0)
        self.check()

    def check(self) -> None:
        good = self.good()
        newest = good[0].step if good else 0
        if self.num_verified_ever and not good:
            raise Violation("I1: a checkpoint was verified once, now none is verified and intact")
        if newest < self._best_step:
            raise Violation(f"I3: step {self._best_step} was verified, the newest intact one is now {newest}")
        self._best_step = newest
        self._check_source()

    def _append(self, key: str, data: bytes) -> None:
        record = cached_record(data, where=key)
        change = record.change
        if record.seq != len(self.log) + 1:
            raise Violation(f"I8: record {record.seq} was written after {len(self.log)} records")
        if isinstance(change, Begin):
            if change.generation in self._generations:
                raise Violation(f"I6: generation {change.generation} began twice")
            self._generations.add(change.generation)
            best = self.state.newest_first("verified") or self.state.newest_first("committed")
            if (best[0].checkpoint if best else None) != change.source:
                raise Violation(f"I9: term {change.term} begins at {change.source}, past {best[:1]}")
        if isinstance(change, Commit):
            if change.term != self.state.term:
                raise Violation(f"I4: {change.checkpoint} was committed after term {self.state.term} began")
            start = f"{change.folder}/"
            found = {at: value for at, value in self.objects.items() if at.startswith(start) and "/receipts/" not in at}
            self._committed[change.folder] = found
        if isinstance(change, Verified) and NAN in self.objects.get(self._model(change.checkpoint), b""):
            raise Violation(f"{change.checkpoint} with NaN was verified")
        self.log.append(record)
        self.last = Line(record, data)
        before, self.state = self.state, fold(self.state, [record])
        for name, entry in before.checkpoints.items():
            now = self.state.checkpoints[name]
            if entry.status == "retired" and now.status != "retired":
                raise Violation(f"I7: {name} was retired and is {now.status}")
        self.num_verified_ever += change.kind == "verified"
        self.check()

    def _model(self, checkpoint: str) -> str:
        return f"{self.state.checkpoints[checkpoint].folder}/model.safetensors"

    def _check_source(self) -> None:
        if not self.state.begins:
            return
        current = self.state.begins[-1]
        source = self.state.checkpoints.get(current.source or "")
        if source is None or source.status != "retired" or source.reason.startswith("quarantined"):
            return
        if not any(entry.term == current.term and entry.level for entry in self.state.checkpoints.values()):
            raise Violation(f"I5: {source.checkpoint} was retired under term {current.term}")
