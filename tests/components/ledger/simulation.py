"""A world in which the real protocol runs against a store in memory, one operation at a time, in a seeded order.

Every actor is a thread that runs our own code and stops before each operation that others could notice; the seed says
who goes on. What may happen: a crash before or after any operation, a zombie beside its replacement, a lost request, a
lost answer, a conflict, a burst of refusals, a full disk, clocks an hour apart, listings in any order, flipped bits,
cut and lost files, poisoned saves, two cleaners, two verifiers, and stale folds at every turn.
"""

import random
from collections.abc import Callable
from datetime import timedelta

from components.contracts.clock import utc_text
from components.contracts.retention import RetentionPolicy
from components.errors import ArgosyError, VerificationFailed
from components.ledger import ledger as protocol
from components.ledger.ledger import Fenced, Ledger, LedgerDamaged, SourceLost
from components.ledger.select import Source, still_chosen
from components.ledger.state import LedgerState, fold
from components.retain import apply
from components.verify import run as verify
from tests.components.ledger.building import DATA_VERSION, LATEST, NOW, selected
from tests.components.ledger.crew import Crew
from tests.components.ledger.invariants import LOG, Violation
from tests.components.ledger.line import Actor, Crash, Line
from tests.components.ledger.memory import MemoryStore
from tests.components.ledger.past import GOOD, POISONED, RUN, SILENT, before, save

MAX_OPERATIONS = 2000
_CREW = Crew()


class World:
    """One schedule: gangs, one after another or beside each other, with what they start after each commit."""

    def __init__(self, seed: int, *, keep_last: int = 2) -> None:
        self.rng = rng = random.Random(seed)
        self._num_before = rng.choice([0, 0, 1, 2, 3, 3])
        self.store = before(self._num_before).copy(rng)
        self.store.shuffles = rng.random() < 0.5
        seconds = rng.choice([None, None, 1800.0])
        self.policy = RetentionPolicy.model_construct(
            keep_last=keep_last, keep_for=seconds, keep_every_steps=rng.choice([None, None, 20]), keep_best=None
        )
        self._num_poisons = rng.choice([0, 0, 1, 2])
        self._num_damages = rng.choice([0, 1]) if not self._num_poisons else 0
        self._loses_two = not self._num_damages and rng.random() < 0.3
        self._num_replacements = rng.choice([0, 0, 1, 1, 1, 2])
        self._switching = rng.choice([0.1, 0.3, 0.6])
        self._trouble = rng.choice([0.0, 0.02, 0.06])
        self._paces = {kind: rng.choice([1.0, 1.0, 0.3, 0.05]) for kind in ("gang", "verifier", "cleaner")}
        self._spell, self._spell_left = "", 0
        self._num_selecting = 0
        self._generation = -1
        self._num_operations = 0
        self.num_refused = 0
        """Writes that came too late for their position."""
        self._actors: list[Actor] = []
        self._is_over = False
        self.failure: BaseException | None = None

    def run(self) -> None:
        """Raises Violation, or whatever else our code raises that it should not."""
        ledger = self._ledger(self.store)
        if self._num_before:
            self._generation = 0
            self._start("gang", self._gang_going_on)
        else:
            self._replace()
        self._actors[0].worker.give_baton()
        _CREW.wait_until_done()
        if self.failure is not None:
            raise self.failure
        self._end(ledger)

    # --- the scheduler, run by whoever holds the baton

    def pause(self, actor: Actor) -> str:
        """Let others go first, perhaps; then say what goes wrong with this actor's next operation."""
        self._happen()
        if self.rng.random() < self._switching:
            chosen = self._choose()
            if chosen is not actor:
                chosen.worker.give_baton()
                actor.worker.wait_for_baton()
        self._num_operations += 1
        if self._num_operations > MAX_OPERATIONS and not self._is_over:
            self.failure = Violation("the actors do not come to an end")
            self._is_over = True
        if self._is_over:
            raise Crash
        return self._fault(actor)

    def _choose(self) -> Actor:
        if len(self._actors) == 1:
            return self._actors[0]
        return self.rng.choices(self._actors, [actor.pace for actor in self._actors])[0]

    def _fault(self, actor: Actor) -> str:
        if self._spell_left:
            self._spell_left -= 1
            return self._spell
        chance = self.rng.random()
        if chance >= self._trouble:
            return ""
        kind = self.rng.choice(
            [
                "crash before",
                "crash after",
                "lost request",
                "lost answer",
                "lost answer",
                "conflict",
                "busy",
                "disk full",
            ]
        )
        if kind in ("busy", "disk full"):
            self._spell, self._spell_left = kind, self.rng.choice([1, 3, 8, 20])
        elif kind.startswith("crash") and actor.kind == "gang":
            return kind if self._num_replacements else ""
        return kind

    def _happen(self) -> None:
        """Damage from outside, and a launcher that loses patience."""
        if self._num_replacements and self.rng.random() < 0.01:
            self._replace()  # the old gang lives on as a zombie
        if not self._num_damages and not self._loses_two:
            return
        if self._num_selecting or self.rng.random() >= 0.05:
            return
        good = self.store.good()
        if self._num_damages and self.store.num_verified_ever >= 2 and good:
            # No more than keep_last - 1, wherever it strikes: that is what the second copy is for.
            self._num_damages -= 1
            self.store.damage(self.rng.choice(good), self.rng.choice(["flip", "cut", "lose"]))
        elif self._loses_two and len(good) >= 3 and not any(actor.retiring for actor in self._actors):
            # Both newest at once, in a way that a look at names and sizes finds: nothing may be retired on them.
            self._loses_two = False
            for entry in good[:2]:
                self.store.damage(entry, "lose")

    # --- the actors

    def _start(self, kind: str, work: Callable[[Line], None]) -> None:
        actor = Actor(kind, self._paces[kind], _CREW.hire())
        actor.worker.task = lambda: self._act(actor, work)
        self._actors.append(actor)

    def _act(self, actor: Actor, work: Callable[[Line], None]) -> Callable[[], None]:
        try:
            work(Line(self, actor))
        except (Crash, Fenced):
            pass
        except LedgerDamaged as error:
            self._fail(Violation(f"our own log was refused: {error}"))
        except ArgosyError:
            pass
        except BaseException as error:
            self._fail(error)
        self._actors.remove(actor)
        if not any(other.kind == "gang" for other in self._actors) and not self._is_over:
            self._replace()
        return self._choose().worker.give_baton if self._actors else _CREW.done

    def _fail(self, error: BaseException) -> None:
        self.failure = self.failure or error
        self._is_over = True

    def _replace(self) -> None:
        if self._num_replacements >= 0 and self._generation < 3:
            self._num_replacements -= 1
            self._generation += 1
            generation = self._generation
            self._start("gang", lambda line: self._gang(line, generation))

    def _gang(self, line: Line, generation: int) -> None:
        ledger = self._ledger(line)
        while True:
            source = self._select(ledger)
            try:
                term = protocol.begin(
                    ledger, run=RUN, generation=generation, attempt=0, reason="start", charged=True,
                    source=source.checkpoint,
                    is_still_chosen=still_chosen(source, resume=LATEST, data_version=DATA_VERSION, run=RUN),
                )  # fmt: skip
                break
            except SourceLost:
                continue
        self._train(ledger, term, source.step)

    def _gang_going_on(self, line: Line) -> None:
        ledger = self._ledger(line)
        self._after_commit()
        self._train(ledger, 1, ledger.state().newest_first()[0].step)

    def _train(self, ledger: Ledger, term: int, first: int) -> None:
        for step in range(first + 10, first + 10 * self.rng.choice([2, 2, 3]), 10):
            self._save(ledger, term, step)
            self._after_commit()

    def _save(self, ledger: Ledger, term: int, step: int) -> None:
        data = GOOD
        if self._num_poisons and self.rng.random() < 0.5:
            self._num_poisons -= 1
            data = POISONED
        save(ledger, term, step, data)

    def _after_commit(self) -> None:
        living = [actor.kind for actor in self._actors]
        if living.count("verifier") < 2 and self.rng.random() < 0.8:
            self._start("verifier", self._verifier)
        while living.count("cleaner") < 2 and self.rng.random() < 0.5:
            living.append("cleaner")
            self._start("cleaner", self._cleaner)

    def _select(self, ledger: Ledger) -> Source:
        self._num_selecting += 1
        try:
            source = selected(ledger, RUN)
        finally:
            self._num_selecting -= 1
        entry = source.entry
        if entry is not None and not self.store.is_intact(entry):
            now = self.store.state.checkpoints[entry.checkpoint].status
            if now != "retired":  # since it was looked at: then BEGIN will refuse it
                raise Violation(f"I2: {entry.checkpoint} was selected, but its bytes are not those committed")
        return source

    def _verifier(self, line: Line) -> None:
        ledger = self._ledger(line)
        for entry in ledger.state().newest_first("committed"):
            try:
                verify.verify_entry(ledger, entry, "tensors", SILENT)
            except VerificationFailed:
                continue

    def _cleaner(self, line: Line) -> None:
        actor = line._actor
        actor.retiring += 1
        apply.apply_retention(
            self._ledger(line), self.policy, run=RUN, log=SILENT, now=NOW + self._skew(), pause=lambda seconds: None,
            sweeps=self.rng.random() < 0.5,
        )  # fmt: skip
        actor.retiring -= 1

    def _ledger(self, store: Line | MemoryStore) -> Ledger:
        """A new process's view of the log. Most begin as if they had just read it: the same, and much faster."""
        at = utc_text(NOW + self._skew())
        ledger = Ledger(store, "gpt", "v1", pause=lambda seconds: None, clock=lambda: at, num_readers=1)
        if self.store.last is not None and self.rng.random() < 0.8:
            ledger._state, ledger._last = self.store.state, self.store.last
        return ledger

    def _skew(self) -> timedelta:
        return timedelta(hours=self.rng.choice([-1, 0, 0, 1]))

    # --- after the storm

    def _end(self, ledger: Ledger) -> None:
        """Everybody once more, undisturbed; then nothing is left to do or to clean."""
        for entry in ledger.state().newest_first("committed"):
            try:
                verify.verify_entry(ledger, entry, "tensors", SILENT)
            except VerificationFailed:
                continue
        for _ in range(2):
            state = ledger.state()
            apply.apply_retention(ledger, self.policy, run=RUN, log=SILENT, now=NOW)
        if ledger.state() is not state:
            raise Violation("I6: repeating retention changed the log")
        if state != self.store.state or state != fold(LedgerState(), self.store.log):
            raise Violation("I8: two observers of one log disagree")
        retired = {entry.folder for entry in state.checkpoints.values() if entry.status == "retired"}
        for key in self.store.objects:
            if not key.startswith(LOG) and "/".join(key.split("/")[:6]) in retired:
                raise Violation(f"{key} of a retired checkpoint was left behind")
        if self.store.num_verified_ever and self._select(ledger).is_fresh:
            raise Violation("I1: nothing to resume from")
