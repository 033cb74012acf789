"""Real processes, kill -9 at a random byte of upload, commit, verify and retain, on disk and on a real S3 server.

How long a life lasts is counted in bytes, not in time: a seed does the same amount of work on any machine.
"""

from collections.abc import Iterator

import pytest

from components.storage.base import ObjectStore
from tests.components.retain.killing import Mortals, run_rounds
from tests.fakes.s3_server import S3Server

NUM_ROUNDS = 3


@pytest.fixture(scope="module")
def mortals(tmp_path_factory: pytest.TempPathFactory, s3_server_of_session: S3Server) -> Iterator[Mortals]:
    """One program for all seeds, on either store: it takes longer to start than a seed to run."""
    with Mortals(tmp_path_factory.mktemp("mortals"), s3_server_of_session.environment) as mortals:
        yield mortals


@pytest.mark.parametrize("seed", range(1, 21))
def test_nothing_is_torn_or_lost_at_whatever_byte_everybody_is_killed(
    mortals: Mortals, any_store: ObjectStore, seed: int
) -> None:
    ledger = run_rounds(mortals, any_store, seed=seed, num_rounds=NUM_ROUNDS)

    assert ledger.state().newest_first("verified")
