"""Runs seeded schedules one after another; shared by the tests, the mutants and `make soak`."""

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from components.ledger import reading
from tests.components.ledger.invariants import cached_record
from tests.components.ledger.simulation import World


def run_schedules(seeds: Iterable[int], *, keep_last: int = 2) -> int:
    """Run one schedule for each seed; returns how many. Raises AssertionError that names the first bad seed."""
    count = 0
    with _quickly():
        for seed in seeds:
            try:
                World(seed, keep_last=keep_last).run()
            except BaseException as error:
                raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}") from error
            count += 1
    return count


def run_part(part: tuple[int, int]) -> int:
    """(first seed, how many), for a pool of processes."""
    first_seed, size = part
    return run_schedules(range(first_seed, first_seed + size))


@contextmanager
def _quickly() -> Iterator[None]:
    """Many small worlds in a row: records parsed once, no search for cycles in the middle of one."""
    original, reading.read_record = reading.read_record, cached_record
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        reading.read_record = original
