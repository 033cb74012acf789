"""The checkpoint protocol as a model small enough to be searched whole: every order of every step of every actor.

An actor's step is one request to the store. A checkpoint's bytes are PARTIAL while they are written, then WHOLE or
POISONED (as committed, but with NaN); damage makes them FLIPPED (only a digest shows it) or LOST (a listing shows it);
deletion makes them GONE. Actors: gangs, of which an older one may live on, a verifier, cleaners, and whoever deletes.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

PARTIAL, WHOLE, POISONED, FLIPPED, LOST, GONE = "partial", "whole", "poisoned", "flipped", "lost", "gone"


class Data(NamedTuple):
    """A checkpoint's objects."""

    term: int
    step: int
    bytes: str


class Gang(NamedTuple):
    """A writer: what it does next, and what it read."""

    phase: str
    term: int = 0
    step: int = 0
    position: int = 0
    subject: int | None = None
    """The checkpoint it resumes from or writes."""


class World(NamedTuple):
    """One state of everything."""

    log: tuple[tuple[Any, ...], ...] = ()
    data: tuple[Data, ...] = ()
    gangs: tuple[Gang, ...] = (Gang("select"),)
    verdict: tuple[str, int] | None = None
    cleaners: tuple[tuple[tuple[int, ...], int] | None, ...] = (None,)
    starts_left: int = 1
    damage_left: int = 0
    poison_left: int = 0
    harm: str = ""
    """A violation by a step, rather than by a state."""


class Known(NamedTuple):
    """The fold of a log."""

    term: int
    source: int | None
    committed: frozenset[int]
    verified: frozenset[int]
    quarantined: frozenset[int]
    retired: frozenset[int]
    ever_verified: frozenset[int]


@cache
def known(log: tuple[tuple[Any, ...], ...]) -> Known:
    """What the records mean together."""
    if not log:
        return Known(0, None, *[frozenset[int]()] * 5)
    before, (kind, *rest) = known(log[:-1]), log[-1]
    match kind:
        case "begin":
            return before._replace(term=rest[0], source=rest[1])
        case "commit":
            return before._replace(committed=before.committed | {rest[0]})
        case "verified":
            ids = frozenset(rest)
            return before._replace(verified=before.verified | ids, ever_verified=before.ever_verified | ids)
        case "quarantine":
            ids = frozenset(rest)
            return before._replace(verified=before.verified - ids, quarantined=before.quarantined | ids)
        case _:
            ids = frozenset(rest[0])
            return before._replace(verified=before.verified - ids, retired=before.retired | ids)


@dataclass(frozen=True)
class Model:
    """Bounds, and what is left out of the protocol to see whether the search notices."""

    keep_last: int = 2
    max_checkpoints: int = 4
    num_cleaners: int = 1
    num_starts: int = 1
    num_damages: int = 0
    num_poisons: int = 0
    damages: tuple[str, ...] = (FLIPPED, LOST)
    without: frozenset[str] = field(default_factory=frozenset)

    def start(self) -> World:
        return World(
            cleaners=(None,) * self.num_cleaners, starts_left=self.num_starts, damage_left=self.num_damages,
            poison_left=self.num_poisons,
        )  # fmt: skip

    def has(self, part: str) -> bool:
        return part not in self.without

    # --- decisions

    def newest(self, world: World, ids: frozenset[int]) -> list[int]:
        return sorted(ids, key=lambda item: (world.data[item].step, item), reverse=True)

    def source(self, world: World) -> int | None:
        now = known(world.log)
        usable = now.committed - now.quarantined - now.retired
        for item in [*self.newest(world, now.verified), *self.newest(world, usable - now.verified)]:
            if not self.has("a look at the source") or world.data[item].bytes in (WHOLE, POISONED):
                return item
        return None

    def survivors(self, world: World) -> list[int]:
        now = known(world.log)
        counted = now.committed - now.quarantined - now.retired if not self.has("verification") else now.verified
        keep = self.newest(world, counted)[: self.keep_last]
        in_use = now.source
        if self.has("the source in use") and in_use is not None and in_use not in now.quarantined | now.retired:
            own = [item for item in now.verified if world.data[item].term == now.term]
            keep += [in_use] if not own and in_use not in keep else []
        return keep

    def going(self, world: World) -> tuple[int, ...]:
        now, keep = known(world.log), self.survivors(world)
        counted = now.committed - now.quarantined - now.retired if not self.has("verification") else now.verified
        going = set(now.quarantined - now.retired) if len(counted) >= self.keep_last else set()
        if len(counted) > self.keep_last:
            lowest = min(world.data[item].step for item in keep[: self.keep_last])
            unverified = now.committed - now.verified - now.quarantined - now.retired
            going |= counted - set(keep)
            going |= {item for item in unverified - set(keep) if world.data[item].step < lowest}
        return tuple(sorted(going))

    # --- steps

    def steps(self, world: World) -> Iterator[tuple[str, World]]:
        for number, gang in enumerate(world.gangs):
            yield from self._gang(world, number, gang)
        yield from self._verifier(world)
        for number, plan in enumerate(world.cleaners):
            yield from self._cleaner(world, number, plan)
        yield from self._deletions(world)
        yield from self._damages(world)

    def _append(self, world: World, position: int, *record: Any) -> tuple[tuple[Any, ...], ...] | None:
        if len(world.log) != position and self.has("compare-and-append"):
            return None
        return (*world.log, record)

    def _gang(self, world: World, number: int, gang: Gang) -> Iterator[tuple[str, World]]:
        def to(next_: Gang | None, **changes: Any) -> World:
            kept = (next_,) if next_ is not None else ()
            return world._replace(gangs=(*world.gangs[:number], *kept, *world.gangs[number + 1 :]), **changes)

        now = known(world.log)
        match gang.phase:
            case "select":
                source = self.source(world)
                if source is not None or not now.committed:
                    step = world.data[source].step if source is not None else 0
                    yield f"a gang selects {source}", to(Gang("begin", 0, step, len(world.log), source))
            case "begin":
                log = self._append(world, gang.position, "begin", now.term + 1, gang.subject)
                if log is None:
                    yield "BEGIN comes too late", to(Gang("select"))
                elif self.has("a look at the source in BEGIN") or gang.subject not in now.retired:
                    yield f"BEGIN term {now.term + 1}", to(Gang("idle", now.term + 1, gang.step), log=log)
            case "idle":
                if len(world.data) < self.max_checkpoints:
                    item, data = len(world.data), Data(gang.term, gang.step + 1, PARTIAL)
                    writing = Gang("write", gang.term, gang.step + 1, 0, item)
                    yield f"term {gang.term} writes {item}", to(writing, data=(*world.data, data))
            case "write":
                assert gang.subject is not None
                if world.data[gang.subject].bytes == PARTIAL:
                    done = gang._replace(phase="fold")
                    yield f"{gang.subject} is whole", to(done, data=_with(world, gang.subject, WHOLE))
                    if world.poison_left:
                        yield (
                            f"{gang.subject} is poisoned",
                            to(done, data=_with(world, gang.subject, POISONED), poison_left=world.poison_left - 1),
                        )
            case "fold":
                if now.term == gang.term or not self.has("fencing"):
                    yield "it folds", to(gang._replace(phase="commit", position=len(world.log)))
                else:
                    yield f"term {gang.term} is fenced", to(None)
            case "commit":
                log = self._append(world, gang.position, "commit", gang.subject)
                if log is None:
                    yield "COMMIT comes too late", to(gang._replace(phase="fold"))
                else:
                    harm = "I4: a fenced gang committed" if now.term != gang.term else ""
                    yield f"COMMIT {gang.subject}", to(Gang("idle", gang.term, gang.step), log=log, harm=harm)
        if world.starts_left and gang.phase not in ("select", "begin"):
            left = world.starts_left - 1
            dead = to(None, starts_left=left)
            yield "the gang dies, another starts", dead._replace(gangs=(*dead.gangs, Gang("select")))
            yield "another starts beside it", world._replace(gangs=(*world.gangs, Gang("select")), starts_left=left)

    def _verifier(self, world: World) -> Iterator[tuple[str, World]]:
        now = known(world.log)
        open_ = now.committed - now.quarantined - now.retired
        if world.verdict is None:
            for item in open_ - now.verified:
                verdict = "verified" if world.data[item].bytes == WHOLE else "quarantine"
                yield f"{item} is read: {verdict}", world._replace(verdict=(verdict, item))
            return
        verdict, item = world.verdict
        if item in open_ and not (verdict == "verified" and item in now.verified):
            yield f"{verdict} {item}", world._replace(log=(*world.log, world.verdict), verdict=None)
        else:
            yield "the verdict is no news", world._replace(verdict=None)

    def _cleaner(
        self, world: World, number: int, plan: tuple[tuple[int, ...], int] | None
    ) -> Iterator[tuple[str, World]]:
        def to(next_: tuple[tuple[int, ...], int] | None, **changes: Any) -> World:
            return world._replace(cleaners=(*world.cleaners[:number], next_, *world.cleaners[number + 1 :]), **changes)

        if plan is not None:
            log = self._append(world, plan[1], "retire", plan[0])
            yield f"RETIRE {plan[0]}", to(None, log=log) if log is not None else to(None)
            return
        going = self.going(world)
        if not going:
            return
        for item in self.survivors(world):
            if self.has("a look at the survivors") and world.data[item].bytes in (LOST, GONE):
                yield f"quarantine {item}", world._replace(log=(*world.log, ("quarantine", item)))
                return
        yield f"a cleaner wants to retire {going}", to((going, len(world.log)))

    def _deletions(self, world: World) -> Iterator[tuple[str, World]]:
        now = known(world.log)
        for item, data in enumerate(world.data):
            is_over = data.term < now.term or not self.has("the running term's own")
            is_orphan = item not in now.committed and is_over
            if data.bytes != GONE and (item in now.retired or is_orphan):
                yield f"the objects of {item} are deleted", world._replace(data=_with(world, item, GONE))

    def _damages(self, world: World) -> Iterator[tuple[str, World]]:
        """One copy is left at least; and when more is lost than keep_last - 1, nobody is just about to rely on it."""
        now = known(world.log)
        if not world.damage_left or len(now.ever_verified) < 2:
            return
        if self.num_damages >= self.keep_last and any(plan is not None for plan in world.cleaners):
            return
        good = {item for item in now.verified if world.data[item].bytes == WHOLE}
        for item in now.committed - now.retired:
            if world.data[item].bytes == WHOLE and good - {item}:
                for damage in self.damages:
                    left = world.damage_left - 1
                    yield f"{item} is {damage}", world._replace(data=_with(world, item, damage), damage_left=left)

    # --- invariants

    def violation(self, world: World) -> str:
        if world.harm:
            return world.harm
        now = known(world.log)
        if now.ever_verified and not any(world.data[item].bytes == WHOLE for item in now.verified):
            return "I1: one was verified, and none is verified and intact"
        source = self.source(world)
        if source is not None and world.data[source].bytes not in (WHOLE, POISONED):
            return f"I2: {source} would be selected, which is {world.data[source].bytes}"
        for item in now.committed - now.retired:
            if world.data[item].bytes in (PARTIAL, GONE):
                return f"I7: {item} is committed and {world.data[item].bytes}"
        in_use = now.source
        if in_use in now.retired - now.quarantined:
            has_own = any(world.data[item].term == now.term for item in now.ever_verified)
            if not has_own:
                return f"I5: {in_use} was retired under term {now.term}"
        return ""


def _with(world: World, item: int, data: str) -> tuple[Data, ...]:
    return (*world.data[:item], world.data[item]._replace(bytes=data), *world.data[item + 1 :])
