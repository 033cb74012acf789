"""One corpus, one data version: by 1, 3 or 8 tasks, in any order, with retries, on disk and on S3, in every format."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from components.shard.merge import merge_receipts
from components.shard.task import run_task
from components.storage.base import ObjectStore
from components.storage.local import LocalStore
from tests.components.shard.building import LOG, plan
from tests.components.shard.formats import FORMATS, rows, spec
from tests.fakes.s3_server import S3Server


def made_by(store: ObjectStore, corpus: Path, format: str, *, num_tasks: int, seed: int) -> str:
    """The data version, by tasks in an order of their own, one of which runs twice."""
    described = spec(corpus, format, num_tasks=num_tasks, target=500, key_field="id")
    plan_id = plan(store, described)  # type: ignore[arg-type]
    rng = random.Random(seed)
    order = [*range(num_tasks), rng.randrange(num_tasks)]
    rng.shuffle(order)
    for index in order:
        run_task(store, plan_id=plan_id, task_index=str(index), num_tasks=num_tasks, log=LOG)
    return merge_receipts(store, plan_id=plan_id, num_tasks=num_tasks, log=LOG).data_version


def data_of(store: ObjectStore) -> dict[str, bytes]:
    """Everything but the receipts, which tell the tasks apart."""
    return {info.key: store.read(info.key) for info in store.list("data") if "/receipts/" not in info.key}


@pytest.mark.parametrize("format", FORMATS)
def test_a_corpus_has_one_data_version_whoever_makes_it_wherever(
    tmp_path: Path, s3_server: S3Server, format: str
) -> None:
    corpus = rows(tmp_path / "rows", count=24)
    alone = LocalStore(tmp_path / "alone")
    version = made_by(alone, corpus, format, num_tasks=1, seed=0)
    stored = data_of(alone)

    for num_tasks in (1, 3, 8):
        for store in (LocalStore(tmp_path / f"by-{num_tasks}"), s3_server.new_store(prefix=f"by/{num_tasks}")):
            assert made_by(store, corpus, format, num_tasks=num_tasks, seed=num_tasks) == version
            assert data_of(store) == stored

    assert len([key for key in stored if key.startswith("data/shards/") and key.endswith(".json")]) >= 5


@pytest.mark.parametrize("format", FORMATS)
def test_appended_inputs_make_a_new_version_and_nothing_that_was_there_is_made_again(
    any_store: ObjectStore, tmp_path_factory: pytest.TempPathFactory, format: str
) -> None:
    corpus = tmp_path_factory.mktemp("corpus")
    for number in range(5):
        rows(corpus, count=12, name=f"{number}.jsonl", first=100 * number)
    before = made_by(any_store, corpus, format, num_tasks=1, seed=0)
    stored = data_of(any_store)

    rows(corpus, count=12, name="5.jsonl", first=500)
    after = made_by(any_store, corpus, format, num_tasks=2, seed=1)

    def entries_of(version: str) -> list[str]:
        return [
            shard["entry"] for shard in json.loads(any_store.read(f"data/versions/{version}/manifest.json"))["shards"]
        ]

    assert after != before
    assert len(set(entries_of(before)) - set(entries_of(after))) <= 1  # the last one may have had room for more
    assert len(entries_of(after)) > len(entries_of(before)) > 5
    assert {key: any_store.read(key) for key in stored} == stored


@pytest.mark.parametrize("place", ["file", "s3"])
def test_two_that_make_the_same_data_set_at_once_agree(tmp_path: Path, s3_server: S3Server, place: str) -> None:
    corpus = rows(tmp_path / "rows", count=24)
    storage = str(tmp_path / "storage") if place == "file" else s3_server.new_store().uri
    argv = [
        sys.executable, "-m", "components.shard", "all", "--corpus", str(corpus), "--format", "webdataset",
        "--target-shard-size", "1KiB", "--storage", storage,
    ]  # fmt: skip
    env = {**os.environ, **s3_server.environment}
    both = [
        subprocess.Popen(argv, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)
    ]

    said = [process.communicate() for process in both]

    assert [process.returncode for process in both] == [0, 0], said
    assert said[0][0] == said[1][0]
    assert "data_version=d-" in said[0][0]
