"""Does the storage take our writes, and does it keep the two promises crash safety rests on?"""

import time
import uuid

from components.checks.question import Question
from components.contracts.checks import CheckResult
from components.contracts.layout import probe_key
from components.storage.base import ObjectStore, StorageError
from components.storage.probe import NUM_RACERS, probe_conditional_writes

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
            expected=f"a second create is refused; of {NUM_RACERS} racing creates exactly one succeeds",
            origin="publishing shards and checkpoints rests on it",
            remedy="use a file system with working hard links (local, NFS), or an S3 store that honours If-None-Match",
        ),
    )  # fmt: skip


def storage_writable(question: Question, store: ObjectStore, *, run: str) -> CheckResult:
    """Writes, reads back and removes a small object."""
    key, data = probe_key(run, name=f"write-{uuid.uuid4().hex}"), uuid.uuid4().bytes
    started = time.monotonic()
    try:
        store.create(key, data)
    except StorageError as error:
        return question.refused(error)
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
    """Creates one key twice, then others from several threads at once."""
    try:
        fault = probe_conditional_writes(store, folder=probe_key(run, name="create"))
    except StorageError as error:
        return question.refused(error)
    if fault:
        return question.fail(fault)
    return question.ok(f"second create refused; 1 of {NUM_RACERS} racing creates succeeded")


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
