"""Packers killed with SIGKILL at any byte and at any call, run again, and what must be true then."""

import contextlib
import json
import random
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from components.shard.spec import ShardSpec
from components.storage.base import ObjectStore
from components.storage.local import LocalStore
from tests.components.shard.formats import FORMATS, rows, spec
from tests.fakes.s3_server import ENVIRONMENT, S3Server
from tests.forking import ForkingProgram

KILLED = -9


class Mortals(ForkingProgram):
    """The program that forks those who are to be killed. A context manager."""

    def __init__(self, folder: Path, environment: Mapping[str, str] | None = None) -> None:
        self.folder = folder / "tmp"
        self.folder.mkdir()
        super().__init__("tests.components.shard.mortals", folder, temporary=self.folder, environment=environment or {})

    def run(self, part: str, store: ObjectStore, spec: ShardSpec, **more: Any) -> dict[str, Any]:
        """One child from its birth to its death; `after` says when it is killed."""
        order = {"part": part, "storage": store.uri, "spec": spec.to_bytes().decode(), "after": None, **more}
        self.tell(json.dumps(order))
        answer: dict[str, Any] = self.answer() or {}
        assert answer.get("status") in (0, KILLED), f"{part} ended with {answer}: {self.said()[-2000:]}"
        return answer


class Untouched:
    """A data set that nobody was killed for: what every other one must be, and how long each part lives."""

    def __init__(self, mortals: Mortals, store: ObjectStore, spec: ShardSpec) -> None:
        self.spec = spec
        planned = mortals.run("plan", store, spec)
        self.plan_id: str = planned["said"]
        parts = {("plan", 0): planned}
        for index in range(spec.num_tasks):
            parts["task", index] = mortals.run("task", store, spec, plan_id=self.plan_id, index=index)
        merged = parts["merge", 0] = mortals.run("merge", store, spec, plan_id=self.plan_id)
        self.data_version: str = merged["said"]
        self.lives = {part: {what: answer[what] for what in ("calls", "bytes")} for part, answer in parts.items()}
        self.stored = everything(store)


def a_killable_spec(corpus: Path, format: str, *, count: int = 20) -> ShardSpec:
    """A few shards for two tasks, with a bad record and keys: every kind of file is among what is killed."""
    rows(corpus, count=count)
    with (corpus / "rows.jsonl").open("a") as file:
        file.write("no JSON\n")
    return spec(corpus, format, num_tasks=2, target=500, key_field="id", max_bad_records=1)


def kill_packers(*, seed: int, num_kills: int, with_s3: bool = True) -> None:
    """So many kills a format, on disk and on S3. Raises AssertionError with the moment of the first that did harm."""
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as running:
        folder, server = Path(name), None
        if with_s3:
            server = S3Server(folder / "server")
            running.callback(server.close)
        mortals = running.enter_context(Mortals(folder, server.environment if server else ENVIRONMENT))
        for format in FORMATS:
            described = a_killable_spec(folder / format / "corpus", format, count=60)
            on_disk = _kill_on(mortals, folder / format, None, described, seed=seed, num_kills=num_kills)
            if server is not None:
                on_s3 = _kill_on(mortals, folder / format, server, described, seed=seed, num_kills=num_kills)
                assert on_s3 == on_disk, f"{format} differs on S3"


def _kill_on(
    mortals: Mortals, folder: Path, server: S3Server | None, described: ShardSpec, *, seed: int, num_kills: int
) -> dict[str, bytes]:
    """Everything that was stored each time."""

    def new_store(number: int) -> ObjectStore:
        return server.new_store() if server else LocalStore(folder / f"storage-{number}")

    place, format, killed = "S3" if server else "disk", described.options.format, 0
    untouched, rng = Untouched(mortals, new_store(0), described), random.Random(f"{seed} {format} {place}")
    while killed < num_kills:
        store = new_store(killed + 1)
        try:
            killed += kill_every_part_then_run_again(mortals, store, untouched, rng=rng)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        if isinstance(store, LocalStore):
            shutil.rmtree(store.root)
    print(f"kill -9 of packers on {place}, {format}: {killed}, {untouched.data_version} each time", flush=True)
    return untouched.stored


def everything(store: ObjectStore) -> dict[str, bytes]:
    return {info.key: store.read(info.key) for info in store.list("data")}


def kill_every_part_then_run_again(
    mortals: Mortals, store: ObjectStore, untouched: Untouched, *, rng: random.Random
) -> int:
    """Plan, each task and merge die once, at a moment of their lives that `rng` draws; returns how many did.

    The same bytes must be there in the end, and nothing else. Every shard whose record was there is found, so each task
    repeats at most the shard that it was at.
    """
    killed = 0
    for (part, index), life in untouched.lives.items():
        what = rng.choice(["calls", "bytes"])
        after = [what, rng.randrange(1, life[what])]
        order = {"plan_id": untouched.plan_id, "index": index}
        moment = f"{part} {index} of {untouched.spec.options.format} on {store.uri}, after {after}"
        first = mortals.run(part, store, untouched.spec, **order, after=after)
        killed += first["status"] == KILLED
        before = {info.key: info.size_bytes for info in store.list("data")}
        assert all(len(untouched.stored.get(key, b"")) == size for key, size in before.items()), moment
        again = mortals.run(part, store, untouched.spec, **order)
        assert again["status"] == 0, moment
        if part == "task":
            records = {key.split("/")[-1][:-5] for key in before if key.startswith("data/shards/") and "json" in key}
            own = records & entries_of_task(untouched, index)
            assert own <= set(again["found"]), f"{moment}: made again what was done"
            begun = {key.split("/")[-1].partition(".")[0] for key in before if key.startswith("data/shards/")}
            assert len(begun & entries_of_task(untouched, index) - set(again["found"])) <= 1, moment
    assert everything(store) == untouched.stored, f"{untouched.spec.options.format} on {store.uri}"
    assert list(mortals.folder.iterdir()) == [], "a killed packer left files on local disk"
    if isinstance(store, LocalStore):
        assert list(store.root.rglob(".tmp-*")) == []
    return killed


def entries_of_task(untouched: Untouched, index: int) -> set[str]:
    receipt = next(
        json.loads(data) for key, data in untouched.stored.items() if key.endswith(f"receipts/000002/{index:06d}.json")
    )
    return {shard["entry"] for shard in receipt["shards"]}
