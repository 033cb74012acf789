"""Does the storage take our writes, and does it keep the two promises crash safety rests on?"""

import threading
import time
import uuid

from components.checks.question import Question
from components.contracts.checks import CheckResult
from components.contracts.layout import probe_key
from components.errors import ArgosyError
from components.storage.base import AlreadyExists, ObjectStore, StorageError

_RACERS = 4
_MAX_CLOCK_OFFSET_SECONDS = 5.0


def storage_questions(uri: str) -> tuple[Question, Question]:
    """Whether `uri` can be written, and whether it publishes atomically."""
    return (
        Question(
            name="storage_writable", scope="environment", subject=uri, origin="storage in the run description",
            expected="an object written, read back and removed",
            remedy="make the storage writable, or point storage at another place",
        ),
        Question(
            name="storage_atomic", scope="environment", subject=uri,
            expected=f"a second create is refused; of {_RACERS} racing creates exactly one succeeds",
            origin="publishing shards and checkpoints rests on it",
            remedy="use a file system with working hard links (local, NFS), or another store",
        ),
    )  # fmt: skip


def storage_writable(question: Question, store: ObjectStore, *, run: str) -> CheckResult:
    """Writes, reads back and removes a small object."""
    key, data = probe_key(run, name=f"write-{uuid.uuid4().hex}"), uuid.uuid4().bytes
    started = time.monotonic()
    try:
        store.create(key, data)
    except StorageError as error:
        return question.fail(error.seen, error.fix)
    try:
        found = store.read(key)
    finally:
        store.delete(key)
    if found != data:
        return question.fail(f"wrote {len(data)} bytes and read back {len(found)} others")
    if store.find(key) is not None:
        return question.fail("an object that was removed is still there")
    return question.ok(f"written, read back and removed in {(time.monotonic() - started) * 1000:.0f} ms")


def storage_atomic(question: Question, store: ObjectStore, *, run: str) -> CheckResult:
    """Creates one key twice, then another from several threads at once."""
    twice, raced = (probe_key(run, name=f"{name}-{uuid.uuid4().hex}") for name in ("twice", "race"))
    try:
        store.create(twice, b"first")
        try:
            store.create(twice, b"second")
            return question.fail("a second create of the same object succeeded")
        except AlreadyExists:
            pass
        winners = _race(store, raced)
        if len(winners) != 1:
            return question.fail(f"of {_RACERS} racing creates {len(winners)} succeeded")
        if store.read(raced) != winners[0] or store.read(twice) != b"first":
            return question.fail("the object does not hold what its one successful writer wrote")
    except StorageError as error:
        return question.fail(error.seen, error.fix)
    finally:
        for key in (twice, raced):
            store.delete(key)
    return question.ok(f"second create refused; 1 of {_RACERS} racing creates succeeded")


def _race(store: ObjectStore, key: str) -> list[bytes]:
    winners: list[bytes] = []
    refusals: list[ArgosyError] = []
    barrier = threading.Barrier(_RACERS)

    def write(data: bytes) -> None:
        barrier.wait()
        try:
            store.create(key, data)
            winners.append(data)
        except AlreadyExists:
            pass
        except ArgosyError as error:
            refusals.append(error)

    racers = [threading.Thread(target=write, args=(f"racer {index}".encode(),)) for index in range(_RACERS)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    if refusals:
        raise refusals[0]
    return winners


def clock_question(uri: str) -> Question:
    """Whether this machine's clock agrees with the one that stamps files in the storage."""
    return Question(
        name="clock", scope="node", subject=uri, hard=False,
        expected=f"within {_MAX_CLOCK_OFFSET_SECONDS:g} s of the storage's clock",
        origin="times in logs and reports from several machines are compared",
        remedy="synchronise the clocks (NTP); nothing decides by them, but timelines will mislead",
    )  # fmt: skip


def storage_clock(question: Question, store: ObjectStore, *, run: str) -> CheckResult:
    """Compares our clock with the time the file server gives a new file."""
    key = probe_key(run, name=f"clock-{uuid.uuid4().hex}")
    path = store.local_path(key)
    if path is None:
        return question.ok("not measured: this storage does not tell the time")
    before = time.time()
    store.create(key, b"")
    try:
        stamped, after = path.stat().st_mtime, time.time()
    finally:
        store.delete(key)
    offset = max(before - stamped, stamped - after, 0.0)
    if offset > _MAX_CLOCK_OFFSET_SECONDS:
        return question.fail(f"{offset:.1f} s apart")
    return question.ok(f"{offset:.1f} s apart")
