"""A world in which the real protocol runs against a store in memory, one operation at a time, in a seeded order.

Every actor is a thread that runs our own code and stops before each operation that matters; the scheduler lets one of
them go on. It may also crash an actor before or after an operation, lose a request or an answer, start a replacement
beside a zombie, flip a bit, or let a gang save NaN. After every change of the store the invariants I1 to I7 of the
protocol are checked against the bytes themselves.
"""

import hashlib
import io
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, TypeVar

from components.contracts.retention import RetentionPolicy
from components.errors import ArgosyError, Transient, VerificationFailed
from components.ledger.ledger import Fenced, Ledger, SourceLost, begin, claim
from components.ledger.records import Begin, Commit, read_record
from components.ledger.select import Source
from components.ledger.state import CheckpointEntry, LedgerState
from components.retain.apply import apply_retention
from components.runtime.log import Log
from components.storage.base import AlreadyExists, ObjectInfo, ObjectNotFound
from components.verify.run import verify_entry
from tests.components.ledger.building import NOW, a_checkpoint, an_owner, selected

Result = TypeVar("Result")

RUN = "gpt-aaaaa"
ROOT = "checkpoints/gpt/v1/"
LOG = f"{ROOT}log/"
MAX_OPERATIONS = 4000


class Crash(BaseException):
    """An actor is killed here."""


class Violation(AssertionError):
    """An invariant does not hold."""


class Objects:
    """The store itself: objects in memory, and what is checked whenever they change."""

    uri = "memory://"

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.committed_bytes: dict[str, dict[str, bytes]] = {}
        self.best_step = 0
        self.was_verified = False
        self.ledger = Ledger(self, "gpt", "v1")

    def create(self, key: str, data: bytes | bytearray) -> None:
        if key in self.objects:
            raise AlreadyExists("AlreadyExists", key)
        if key.startswith(LOG):
            self._check_commit(key, bytes(data))
        self.objects[key] = bytes(data)
        self.check()

    def create_from(self, key: str, source: Path) -> str:
        data = source.read_bytes()
        self.create(key, data)
        return hashlib.sha256(data).hexdigest()

    def replace(self, key: str, data: bytes) -> None:
        raise Violation(f"I6: {key} was replaced")

    def read(self, key: str) -> bytes:
        if key not in self.objects:
            raise ObjectNotFound("ObjectNotFound", key)
        return self.objects[key]

    def open(self, key: str) -> BinaryIO:
        return io.BytesIO(self.read(key))

    def find(self, key: str) -> ObjectInfo | None:
        return ObjectInfo(key, len(self.objects[key])) if key in self.objects else None

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        found = [key for key in self.objects if key.startswith(f"{prefix}/")]
        return iter([ObjectInfo(key, len(self.objects[key])) for key in sorted(found)])

    def delete(self, key: str) -> None:
        state = self.ledger.state()
        owners = [entry for entry in state.checkpoints.values() if key.startswith(f"{entry.folder}/")]
        if key.startswith(LOG):
            raise Violation(f"I7: {key} of the log was deleted")
        if owners and owners[0].status != "retired":
            raise Violation(f"I7: {key} of {owners[0].checkpoint}, which is {owners[0].status}, was deleted")
        if not owners and int(key.split("/term-")[1].split("/")[0]) >= state.term:
            raise Violation(f"I7: {key} was deleted while its term may still commit")
        self.objects.pop(key, None)
        self.check()

    def uri_of(self, key: str) -> str:
        return f"memory://{key}"

    def local_path(self, key: str) -> Path | None:
        return None

    def is_intact(self, entry: CheckpointEntry) -> bool:
        expected = self.committed_bytes[entry.folder]
        return all(self.objects.get(key) == data for key, data in expected.items())

    def good_steps(self, state: LedgerState) -> Sequence[int]:
        return [entry.step for entry in state.newest_first("verified") if self.is_intact(entry)]

    def flip_a_bit(self, entry: CheckpointEntry, rng: random.Random) -> None:
        key = rng.choice([key for key in sorted(self.objects) if key.startswith(f"{entry.folder}/model")])
        data = bytearray(self.objects[key])
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        self.objects[key] = bytes(data)
        self.best_step = max(self.good_steps(self.ledger.state()), default=0)
        self.check()

    def check(self) -> None:
        state = self.ledger.state()
        good = self.good_steps(state)
        self.was_verified |= any(entry.level is not None for entry in state.checkpoints.values())
        if self.was_verified and not good:
            raise Violation("I1: a checkpoint was verified once, now none is verified and intact")
        if max(good, default=0) < self.best_step:
            raise Violation(f"I3: step {self.best_step} was verified, the newest intact one is now {good}")
        self.best_step = max(good, default=0)
        if state.begins:
            current = state.begins[-1]
            source = state.checkpoints.get(current.source or "")
            has_own = any(entry.term == current.term and entry.level for entry in state.checkpoints.values())
            was_good = source is not None and source.status == "retired" and "quarantined" not in source.reason
            if source is not None and was_good and not has_own:
                raise Violation(f"I5: {source.checkpoint} was retired under term {current.term}")

    def _check_commit(self, key: str, data: bytes) -> None:
        change = read_record(data, where=key).change
        if isinstance(change, Commit):
            terms = [read_record(value, where=at).change for at, value in self.objects.items() if at.startswith(LOG)]
            newest = max((begun.term for begun in terms if isinstance(begun, Begin)), default=0)
            if change.term != newest:
                raise Violation(f"I4: {change.checkpoint} was committed after term {newest} began")
            found = {at: value for at, value in self.objects.items() if at.startswith(f"{change.folder}/")}
            self.committed_bytes[change.folder] = found


class Actor:
    """One thread of our code; it moves only when the scheduler says so."""

    def __init__(self, world: "World", name: str, work: Callable[["Line"], None]) -> None:
        self.world, self.name, self.is_over = world, name, False
        self.error: BaseException | None = None
        self._may_go, self._stands = threading.Semaphore(0), threading.Semaphore(0)
        self.orders = ""
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        self._thread.start()
        self._stands.acquire()

    def step(self, orders: str) -> None:
        self.orders = orders
        self._may_go.release()
        self._stands.acquire()

    def wait(self) -> str:
        self._stands.release()
        self._may_go.acquire()
        return self.orders

    def _run(self, work: Callable[["Line"], None]) -> None:
        try:
            self.wait()
            work(Line(self))
        except Crash:
            pass
        except BaseException as error:
            self.error = error
        self.is_over = True
        self._stands.release()


class Line:
    """The store as one actor sees it: every operation that others could notice waits for the scheduler."""

    uri = "memory://"

    def __init__(self, actor: Actor) -> None:
        self._actor, self._objects = actor, actor.world.objects

    def create(self, key: str, data: bytes | bytearray) -> None:
        self._do(lambda: self._objects.create(key, data))

    def create_from(self, key: str, source: Path) -> str:
        return self._do(lambda: self._objects.create_from(key, source))

    def replace(self, key: str, data: bytes) -> None:
        self._objects.replace(key, data)

    def read(self, key: str) -> bytes:
        return self._objects.read(key)

    def open(self, key: str) -> BinaryIO:
        if key.startswith(LOG) and key not in self._objects.objects:
            self._actor.world.pause(self._actor)
        return self._objects.open(key)

    def find(self, key: str) -> ObjectInfo | None:
        return self._objects.find(key)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        self._actor.world.pause(self._actor)
        return self._objects.list(prefix)

    def delete(self, key: str) -> None:
        self._do(lambda: self._objects.delete(key))

    def uri_of(self, key: str) -> str:
        return self._objects.uri_of(key)

    def local_path(self, key: str) -> Path | None:
        return None

    def _do(self, operation: Callable[[], Result]) -> Result:
        orders = self._actor.world.pause(self._actor)
        if orders == "lose request":
            raise Transient("StorageNotAnswering", "no answer")
        result = operation()
        if orders == "lose answer":
            raise Transient("StorageNotAnswering", "no answer")
        if orders == "crash after":
            raise Crash
        return result


class World:
    """One schedule: a gang, its replacements, a verifier and two cleaners, until all of them are done."""

    def __init__(self, seed: int, *, good: Path, poisoned: Path, keep_last: int = 2) -> None:
        self.rng, self.objects = random.Random(seed), Objects()
        self.policy = RetentionPolicy(keep_last=keep_last)
        self._good, self._poisoned = good, poisoned
        self._num_poisons = self.rng.choice([0, 0, 1])
        self._num_flips = 0 if self._num_poisons else self.rng.choice([0, 1])
        self._num_replacements = self.rng.randrange(5)
        self._pace = {kind: self.rng.choice([1.0, 1.0, 0.2, 0.05]) for kind in ("gang", "verifier", "cleaner")}
        self._num_selecting = 0
        self._was_flipped = False
        self._generation = 0
        self._actors: list[Actor] = []
        self._log = Log({}, io.StringIO())

    def run(self) -> None:
        claim(self.objects.ledger, run=RUN, owner=an_owner(), is_gone=lambda owner: False)
        self._start(f"gang-{self._generation}", self._gang(0))
        for name, work in (("verifier", self._verifier), ("cleaner-1", self._cleaner), ("cleaner-2", self._cleaner)):
            self._start(name, work)
        for _ in range(MAX_OPERATIONS):
            living = [actor for actor in self._actors if not actor.is_over]
            if not living:
                return self._end()
            (actor,) = self.rng.choices(living, [self._pace[actor.name.partition("-")[0]] for actor in living])
            actor.step(self._orders(actor))
            self._look_after(actor)
            self._happen()
        raise Violation("the actors do not come to an end")

    def pause(self, actor: Actor) -> str:
        orders = actor.wait()
        if orders == "crash before":
            raise Crash
        return orders

    def _start(self, name: str, work: Callable[[Line], None]) -> None:
        self._actors.append(Actor(self, name, work))

    def _has_gang(self) -> bool:
        return any(actor.name.startswith("gang") and not actor.is_over for actor in self._actors)

    def _orders(self, actor: Actor) -> str:
        chance = self.rng.random()
        if chance < 0.01 and not actor.name.startswith("gang"):
            return self.rng.choice(["crash before", "crash after"])
        return self.rng.choice(["lose request", "lose answer"]) if chance < 0.03 else ""

    def _look_after(self, actor: Actor) -> None:
        if not actor.is_over:
            return
        if actor.error is not None and not isinstance(actor.error, ArgosyError):
            raise actor.error
        if actor.name.startswith("gang"):
            if isinstance(actor.error, Transient):
                self._replace()
        elif self._has_gang():  # Argo or agent 0 runs it again
            self._start(actor.name, self._verifier if actor.name == "verifier" else self._cleaner)
        self._actors.remove(actor)

    def _happen(self) -> None:
        """Something bad from outside, now and then."""
        gangs = [actor for actor in self._actors if actor.name.startswith("gang") and not actor.is_over]
        if gangs and self._num_replacements and self.rng.random() < (0.3 if self._was_flipped else 0.015):
            self._was_flipped = False
            if self.rng.random() < 0.5:
                gangs[-1].step(self.rng.choice(["crash before", "crash after"]))
                self._actors = [actor for actor in self._actors if not actor.is_over]
            self._replace()
        state = self.objects.ledger.state()
        good = [entry for entry in state.newest_first("verified") if self.objects.is_intact(entry)]
        if self._num_flips and len(good) >= 2 and not self._num_selecting and self.rng.random() < 0.05:
            self._num_flips, self._was_flipped = self._num_flips - 1, True  # damage is felt at the next restart
            self.objects.flip_a_bit(self.rng.choice(good), self.rng)

    def _replace(self) -> None:
        if self._num_replacements:
            self._num_replacements -= 1
            self._generation += 1
            self._start(f"gang-{self._generation}", self._gang(self._generation))

    def _gang(self, generation: int) -> Callable[[Line], None]:
        def work(line: Line) -> None:
            ledger = Ledger(line, "gpt", "v1", pause=lambda seconds: None)
            while True:
                source = self._select(ledger)
                try:
                    term = begin(
                        ledger, run=RUN, generation=generation, attempt=0, reason="start", charged=True,
                        source=source.checkpoint,
                    )  # fmt: skip
                    break
                except SourceLost:
                    continue
                except Fenced:
                    return
            for step in range(source.step + 10, source.step + 60, 10):
                stage = self._good
                if self._num_poisons and self.rng.random() < 0.3:
                    self._num_poisons -= 1
                    stage = self._poisoned
                try:
                    a_checkpoint(ledger, stage, step=step, term=term, run=RUN, parent=source.checkpoint)
                except Fenced:
                    return

        return work

    def _select(self, ledger: Ledger) -> Source:
        self._num_selecting += 1
        try:
            source = selected(ledger, RUN)
        finally:
            self._num_selecting -= 1
        if source.entry is not None and not self.objects.is_intact(source.entry):
            status = self.objects.ledger.state().checkpoints[source.entry.checkpoint].status
            if status != "retired":  # retired since it was looked at: BEGIN will refuse it
                raise Violation(f"I2: {source.checkpoint} was selected, but its bytes are not those committed")
        return source

    def _verifier(self, line: Line) -> None:
        ledger = Ledger(line, "gpt", "v1", pause=lambda seconds: None)
        is_last_round = False
        while not is_last_round:
            is_last_round = not self._has_gang()
            for entry in ledger.state().newest_first("committed"):
                try:
                    verify_entry(ledger, entry, "tensors", self._log)
                except VerificationFailed:
                    continue

    def _cleaner(self, line: Line) -> None:
        ledger = Ledger(line, "gpt", "v1", pause=lambda seconds: None)
        is_last_round = False
        while not is_last_round:
            is_last_round = not self._has_gang()
            apply_retention(ledger, self.policy, run=RUN, log=self._log, now=NOW)

    def _end(self) -> None:
        """After the storm: everybody once more, undisturbed; then nothing is left to do or to clean."""
        ledger = self.objects.ledger
        for entry in ledger.state().newest_first("committed"):
            try:
                verify_entry(ledger, entry, "tensors", self._log)
            except VerificationFailed:
                continue
        apply_retention(ledger, self.policy, run=RUN, log=self._log, now=NOW)
        state = ledger.state()
        apply_retention(ledger, self.policy, run=RUN, log=self._log, now=NOW)
        if ledger.state() is not state or Ledger(self.objects, "gpt", "v1").state() != state:
            raise Violation("I6, I8: repeating retention changed the log, or two observers disagree")
        folders = {entry.folder: entry for entry in state.checkpoints.values()}
        for key in self.objects.objects:
            folder = "/".join(key.split("/")[:6])
            if not key.startswith(LOG) and folder in folders and folders[folder].status == "retired":
                raise Violation(f"{key} of a retired checkpoint was left behind")
        if self.was_ever_verified() and selected(ledger, RUN).entry is None:
            raise Violation("I1: nothing to resume from")

    def was_ever_verified(self) -> bool:
        return any(entry.level for entry in self.objects.ledger.state().checkpoints.values())
