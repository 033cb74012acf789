"""Does a store keep the promise that of several creators of one key exactly one succeeds? Some say so and do not."""

import contextlib
import threading
import uuid
from collections.abc import Iterable

from components.errors import ArgosyError
from components.storage.base import AlreadyExists, ObjectStore

NUM_RACERS = 4
_NUM_RACES = 3


def probe_conditional_writes(store: ObjectStore, *, folder: str) -> str:
    """What `store` does wrong, in a sentence; empty when it keeps its promise. Leaves nothing below `folder`.

    Raises what the store raises when it cannot be asked.
    """
    name = uuid.uuid4().hex
    twice = f"{folder}/twice-{name}"
    races = [f"{folder}/race-{name}-{number}" for number in range(_NUM_RACES)]
    try:
        fault = _create_twice(store, twice) or next(filter(None, (_race(store, key) for key in races)), "")
    except ArgosyError:
        with contextlib.suppress(ArgosyError):  # what kept the probe from being made is what matters
            _remove(store, [twice, *races])
        raise
    _remove(store, [twice, *races])
    return fault


def _remove(store: ObjectStore, keys: Iterable[str]) -> None:
    for key in keys:
        store.delete(key)


def _create_twice(store: ObjectStore, key: str) -> str:
    try:
        store.create(key, b"first")
    except AlreadyExists:
        return "a new object is refused as if it existed"
    try:
        store.create(key, b"second")
        return "a second create of the same object succeeded"
    except AlreadyExists:
        pass
    return "" if store.read(key) == b"first" else "a create that was refused has changed the object"


def _race(store: ObjectStore, key: str) -> str:
    winners: list[bytes] = []
    refusals: list[ArgosyError] = []
    barrier = threading.Barrier(NUM_RACERS)

    def write(data: bytes) -> None:
        barrier.wait()
        try:
            store.create(key, data)
            winners.append(data)
        except AlreadyExists:
            pass
        except ArgosyError as error:
            refusals.append(error)

    racers = [threading.Thread(target=write, args=(f"racer {index}".encode(),)) for index in range(NUM_RACERS)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    if refusals:
        raise refusals[0]
    if len(winners) != 1:
        return f"of {NUM_RACERS} racing creates {len(winners)} succeeded"
    return "" if store.read(key) == winners[0] else "the object does not hold what its one successful writer wrote"
