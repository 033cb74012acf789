"""The merge takes exactly the receipts of its plan, on disk and on S3: every other set is refused, and said which."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from components.errors import ArgosyError
from components.shard.merge import merge_receipts
from components.shard.task import run_task
from components.storage.base import ObjectStore
from tests.components.shard.building import LOG, plan
from tests.components.shard.formats import rows, spec

NUM_TASKS = 3


class Receipts:
    """Of a finished plan, to be meddled with."""

    def __init__(self, store: ObjectStore, plan_id: str) -> None:
        self.store, self.plan_id = store, plan_id

    def key(self, task: int) -> str:
        return f"data/plans/{self.plan_id}/receipts/{NUM_TASKS:06d}/{task:06d}.json"

    def edit(self, task: int, **changes: Any) -> None:
        document = json.loads(self.store.read(self.key(task)))
        self.store.replace(self.key(task), json.dumps(document | changes).encode())

    def shards(self, task: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.store.read(self.key(task)))["shards"]
        return found

    def counts(self, task: int) -> dict[str, int]:
        found: dict[str, int] = json.loads(self.store.read(self.key(task)))["counts"]
        return found

    def copy(self, task: int, *, to: int) -> None:
        self.store.replace(self.key(to), self.store.read(self.key(task)))


def lose_a_file(receipts: Receipts) -> None:
    receipts.store.delete(f"data/shards/{receipts.shards(1)[0]['files'][0]['path']}")


def lose_a_record(receipts: Receipts) -> None:
    receipts.store.delete(f"data/shards/{receipts.shards(1)[0]['entry']}.json")


def cut_a_file(receipts: Receipts) -> None:
    key = f"data/shards/{receipts.shards(1)[0]['files'][0]['path']}"
    receipts.store.replace(key, receipts.store.read(key)[:-1])


def falsify_a_file(receipts: Receipts, **changes: Any) -> None:
    first, *others = receipts.shards(1)
    receipts.edit(1, shards=[first | {"files": [first["files"][0] | changes]}, *others])


MEDDLING: dict[str, tuple[Callable[[Receipts], object], str]] = {
    "missing": (lambda it: it.store.delete(it.key(1)), "task 1: left no receipt at {uri}/000001.json"),
    "all missing": (lambda it: [it.store.delete(it.key(task)) for task in range(3)], "task 2: left no receipt"),
    "one too many": (lambda it: it.copy(0, to=3), "{uri}/000003.json: is not a receipt of this plan's tasks"),
    "a foreign file": (lambda it: it.store.create(it.key(0)[:-5] + ".bak", b"x"), "000000.bak: is not a receipt of"),
    "twice": (lambda it: it.copy(0, to=1), "{uri}/000001.json: is the receipt of task 0 of 3"),
    "of another plan": (lambda it: it.edit(2, plan_id="p-0123456789abcdef"), "task 2 of 3, plan p-0123456789abcdef"),
    "of other tasks": (lambda it: it.edit(2, num_tasks=4), "is the receipt of task 2 of 4"),
    "a shard twice": (lambda it: it.edit(2, shards=it.shards(2) + it.shards(0)), "names shard 0, "),
    "a shard too many": (lambda it: it.edit(0, shards=[*it.shards(0), it.shards(0)[0] | {"index": 99}]),
                         "receipt of task 0: names shard 99, which is not that task's"),
    "a shard missing": (lambda it: it.edit(1, shards=it.shards(1)[1:]), "receipts: name no shard 1"),
    "no shards": (lambda it: it.edit(1, shards=[]), "receipts: name no shard 1, 4"),
    "a shard of another entry": (lambda it: it.edit(0, shards=[it.shards(0)[0] | {"entry": "x"}, *it.shards(0)[1:]]),
                                 "receipt of task 0: made shard 0 from entry x, not its own"),
    "inputs missing": (lambda it: it.edit(0, counts={}), "receipts: account for "),
    "a file lost": (lambda it: lose_a_file(it), ".tar: is missing"),
    "a file cut": (lambda it: cut_a_file(it), "bytes instead of"),
    "another digest": (lambda it: falsify_a_file(it, sha256="ab" * 32), f"sha256 {'ab' * 32}, "),
    "another path": (lambda it: falsify_a_file(it, path="../x"), "'../x' is not the name of a file among the shards"),
    "other samples": (lambda it: it.edit(1, shards=[it.shards(1)[0] | {"num_samples": 999}, *it.shards(1)[1:]]),
                      "receipt of task 1: says of shard 1 other than its record "),
    "other counts": (lambda it: it.edit(1, counts=it.counts(1) | {"num_empty": 3}),
                     "receipt of task 1: has other counts, keys or bad records than"),
    "no record": (lambda it: lose_a_record(it),
                  ".json: is missing, the record of shard 1"),
    "not JSON": (lambda it: it.store.replace(it.key(1), b"{"), "000001.json is not a readable ShardReceipt"),
    "one not JSON, one missing": (lambda it: (it.store.replace(it.key(1), b"{"), it.store.delete(it.key(2))),
                                  "task 2: left no receipt at {uri}/000002.json"),
    "one missing, one cut": (lambda it: (it.store.delete(it.key(0)), it.store.replace(it.key(1), b'{"a')),
                             "receipt of task 1: {uri}/000001.json is not a readable ShardReceipt"),
    "another document": (lambda it: it.store.replace(it.key(1), b"{}"), "000001.json is not a readable ShardReceipt"),
}  # fmt: skip


@pytest.mark.parametrize(("meddle", "said"), MEDDLING.values(), ids=MEDDLING.keys())
def test_any_other_set_of_receipts_is_refused_and_named(
    any_store: ObjectStore, tmp_path_factory: pytest.TempPathFactory, meddle: Callable[[Receipts], object], said: str
) -> None:
    corpus = rows(tmp_path_factory.mktemp("rows"), count=16)
    described = spec(corpus, "webdataset", num_tasks=NUM_TASKS, target=400)
    plan_id = plan(any_store, described)  # type: ignore[arg-type]
    for index in range(NUM_TASKS):
        run_task(any_store, plan_id=plan_id, task_index=str(index), num_tasks=NUM_TASKS, log=LOG)
    receipts = Receipts(any_store, plan_id)
    meddle(receipts)

    with pytest.raises(ArgosyError) as caught:
        merge_receipts(any_store, plan_id=plan_id, num_tasks=NUM_TASKS, log=LOG)

    assert caught.value.exit_code == 78
    assert said.format(uri=any_store.uri_of(receipts.key(0)).rpartition("/")[0]) in str(caught.value)
    assert list(any_store.list("data/versions")) == []
