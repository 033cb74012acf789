"""A packed data set made by the real shard stage."""

import io
from pathlib import Path

import pytest

from components.contracts.dataset import PackingOptions
from components.contracts.layout import shard_manifest_key
from components.runtime.log import Log
from components.shard.merge import merge_receipts
from components.shard.plan import make_plan
from components.shard.spec import ShardSpec
from components.shard.task import run_task
from components.storage.local import LocalStore

SOURCES = Path(__file__).parents[3] / "components" / "contracts"


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Manifest of some Python sources in sequences of 64 tokens."""
    return packed(tmp_path_factory.mktemp("data"), sequence_length=64)


@pytest.fixture(scope="session")
def other_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same sources in other documents, so another data version; sequences of 64 tokens as well."""
    return packed(tmp_path_factory.mktemp("other"), sequence_length=64, pattern="c*.py")


def packed(folder: Path, *, sequence_length: int, pattern: str = "*.py") -> Path:
    corpus = folder / "corpus"
    corpus.mkdir()
    for source in sorted(SOURCES.glob(pattern)):
        (corpus / source.name).write_bytes(source.read_bytes())
    store, log = LocalStore(folder / "storage"), Log({}, stream=io.StringIO())
    spec = ShardSpec(
        corpus=str(corpus), options=PackingOptions(sequence_length=sequence_length, over_long="split"),
        max_bad_records=0, num_tasks=1, target_shard_bytes=16384,
    )  # fmt: skip
    plan_id, _ = make_plan(store, spec, workdir=str(folder), log=log)
    run_task(store, plan_id=plan_id, task_index="0", num_tasks=1, log=log)
    manifest = merge_receipts(store, plan_id=plan_id, num_tasks=1, log=log)
    return folder / "storage" / shard_manifest_key(manifest.data_version)
