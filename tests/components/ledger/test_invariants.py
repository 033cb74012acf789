"""I1 to I9 of the checkpoint protocol, over seeded schedules of crashes, zombies, lost answers and damage."""

import pytest

from tests.components.ledger.schedules import run_schedules
from tests.components.ledger.simulation import World

NUM_SCHEDULES, NUM_PARTS = 20_000, 20
SIZE = NUM_SCHEDULES // NUM_PARTS


@pytest.mark.parametrize("first_seed", range(0, NUM_SCHEDULES, SIZE))
def test_no_schedule_loses_tears_or_mixes_a_checkpoint(first_seed: int) -> None:
    assert run_schedules(range(first_seed, first_seed + SIZE)) == SIZE


def test_a_seed_is_a_schedule() -> None:
    worlds = [World(4321), World(4321), World(4322)]
    for world in worlds:
        world.run()

    logs = [[record.change for record in world.store.log] for world in worlds]
    assert logs[0] == logs[1] != logs[2]


def test_the_schedules_reach_what_they_are_about() -> None:
    kinds: dict[str, int] = {}
    num_retired_in_a_race = 0
    for seed in range(300):
        world = World(seed)
        world.run()
        for record in world.store.log:
            kinds[record.change.kind] = kinds.get(record.change.kind, 0) + 1
        num_retired_in_a_race += world.num_refused > 0

    assert all(kinds[kind] >= 100 for kind in ("begin", "commit", "verified", "quarantine", "retire", "deleted"))
    assert num_retired_in_a_race >= 30
