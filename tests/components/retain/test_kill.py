"""Real processes, kill -9 at random bytes and moments of upload, commit, verify and retain: nothing torn or lost."""

from pathlib import Path

import pytest

from components.storage.local import LocalStore
from tests.components.retain.killing import Mortals, run_rounds
from tests.fakes.s3_server import S3Server

NUM_ROUNDS = 5


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_nothing_is_torn_or_lost_on_disk_whenever_everybody_is_killed(tmp_path: Path, seed: int) -> None:
    with Mortals(tmp_path) as mortals:
        ledger = run_rounds(mortals, LocalStore(tmp_path / "storage"), seed=seed, num_rounds=NUM_ROUNDS)

    assert ledger.state().term >= 2
    assert len(ledger.state().checkpoints) >= 2


def test_nothing_is_torn_or_lost_on_s3_whenever_everybody_is_killed(tmp_path: Path, s3_server: S3Server) -> None:
    with Mortals(tmp_path, s3_server.environment) as mortals:
        ledger = run_rounds(mortals, s3_server.new_store(), seed=5, num_rounds=NUM_ROUNDS - 1)

    assert ledger.state().term >= 2
    assert len(ledger.state().checkpoints) >= 2
