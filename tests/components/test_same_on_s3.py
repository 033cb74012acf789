"""What holds on a folder holds on a real S3 server: the same tests of shard, ledger and retain, with another store."""

from pathlib import Path
from types import ModuleType

import pytest

from components.ledger.ledger import Ledger
from components.storage.s3 import S3Store
from tests.components.ledger import test_log, test_protocol, test_publish, test_select
from tests.components.ledger.building import a_ledger, a_stage
from tests.components.retain import test_apply
from tests.components.shard import test_merge, test_task
from tests.components.shard.building import a_corpus


@pytest.fixture
def store(s3_store: S3Store) -> S3Store:
    return s3_store


@pytest.fixture
def ledger(s3_store: S3Store) -> Ledger:
    return a_ledger(s3_store)


@pytest.fixture
def stage(tmp_path: Path) -> Path:
    return a_stage(tmp_path / "stage")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return a_corpus(tmp_path / "corpus")


FOR_FOLDERS = {
    # They change stored files behind the store's back, open them by path or look for `file://`.
    test_select: ["damaged_one_is_quarantined", "without_a_good_verified_one", "with_nothing_good_left",
                  "a_damaged_explicit_point"],
    test_merge: ["opens_in_the_reader", "lost_shards_of_it_are_restored", "is_read_back_whole",
                 "not_exactly_the_plan_is_refused"],
    test_task: ["a_repeated_task", "a_damaged_shard_is_never_reused", "a_full_store"],
}  # fmt: skip


def _tests_of(*modules: ModuleType) -> dict[str, object]:
    found: dict[str, object] = {}
    for module in modules:
        for name, item in vars(module).items():
            if name.startswith("test_") and not any(part in name for part in FOR_FOLDERS.get(module, ())):
                assert name not in found, f"{name} exists twice"
                found[name] = item
    return found


globals().update(_tests_of(test_log, test_protocol, test_publish, test_select, test_apply, test_merge, test_task))
