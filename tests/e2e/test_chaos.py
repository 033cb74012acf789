"""Kills at random moments. `make soak` runs many more of them; `python -m tests.e2e.chaos --seed N` one of these."""

from pathlib import Path

import pytest

from tests.e2e.chaos import Chaos
from tests.e2e.chaos_plan import plan

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize("seed", [4, 18, 31, 38])
def test_a_run_killed_at_random_moments_ends_like_an_undisturbed_one(seed: int, tmp_path: Path) -> None:
    planned = plan(seed)
    outcome = Chaos(tmp_path / "home", planned).play()
    assert outcome.wrong == [], f"{planned}\n{outcome.struck}"
