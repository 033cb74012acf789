"""I1 to I8 of the checkpoint protocol, over seeded schedules of crashes, zombies, lost answers and damage."""

from pathlib import Path

import pytest

from tests.components.ledger.building import a_stage, safetensors_bytes
from tests.components.ledger.simulation import World

NUM_SCHEDULES = 40


@pytest.mark.parametrize("first_seed", range(0, 200, NUM_SCHEDULES))
def test_no_schedule_loses_tears_or_mixes_a_checkpoint(tmp_path: Path, first_seed: int) -> None:
    good = a_stage(tmp_path / "good")
    poisoned = a_stage(tmp_path / "poisoned", {"model.safetensors": safetensors_bytes({"weight": [float("nan")]})})
    for seed in range(first_seed, first_seed + NUM_SCHEDULES):
        try:
            World(seed, good=good, poisoned=poisoned).run()
        except BaseException as error:
            raise AssertionError(f"seed {seed}: {error}") from error
