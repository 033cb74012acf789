"""kill −9 at any byte, in every format, on either store: the same data version, at most one shard of a task redone."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from components.storage.base import ObjectStore
from components.storage.local import LocalStore
from tests.components.shard.formats import FORMATS
from tests.components.shard.killing import Mortals, Untouched, a_killable_spec, kill_every_part_then_run_again
from tests.fakes.s3_server import S3Server

SEEDS = range(2)


@pytest.fixture(scope="module")
def mortals(tmp_path_factory: pytest.TempPathFactory, s3_server_of_session: S3Server) -> Iterator[Mortals]:
    with Mortals(tmp_path_factory.mktemp("mortals"), s3_server_of_session.environment) as program:
        yield program


@pytest.mark.parametrize("place", ["file", "s3"])
@pytest.mark.parametrize("format", FORMATS)
def test_kill_9_at_any_byte_changes_no_byte_and_costs_at_most_one_shard_a_task(
    mortals: Mortals, tmp_path: Path, s3_server: S3Server, format: str, place: str
) -> None:
    described = a_killable_spec(tmp_path / "rows", format)

    def new_store(name: str) -> ObjectStore:
        return LocalStore(tmp_path / name) if place == "file" else s3_server.new_store()

    untouched = Untouched(mortals, new_store("untouched"), described)
    killed = [
        kill_every_part_then_run_again(mortals, new_store(f"killed-{seed}"), untouched, rng=random.Random(seed))
        for seed in SEEDS
    ]

    assert len([key for key in untouched.stored if key.startswith("data/shards/") and key.endswith(".json")]) >= 5
    assert sum(killed) >= 5  # of 8; whoever finds its work done lives on
