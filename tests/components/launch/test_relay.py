"""Which log lines reach the launcher's own output."""

import json
from pathlib import Path

import pytest

from components.contracts.layout import log_chunk_key
from components.launch.relay import LogRelay
from components.runtime.log import Log
from components.storage.base import ObjectStore
from components.storage.local import LocalStore
from tests.components.launch.values import a_failure, a_state, an_attempt

RUN = "exp-abcde"


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    return LocalStore(tmp_path)


def chunk(store: ObjectStore, stream: str, number: int, *messages: str) -> None:
    text = "".join(json.dumps({"message": message}) + "\n" for message in messages)
    store.create(log_chunk_key(RUN, generation=0, stream=stream, chunk=number), text.encode())


class Output:
    def __init__(self, store: ObjectStore) -> None:
        self.lines: list[str] = []
        self.relay = LogRelay(store, run=RUN, generation=0, write=self._write, log=Log({}, self))  # type: ignore[arg-type]

    def _write(self, text: str) -> None:
        self.lines += [json.loads(line)["message"] for line in text.splitlines()]

    write = _write

    def flush(self) -> None: ...


def test_rank_0_is_followed_chunk_by_chunk_without_repeats(store: ObjectStore) -> None:
    output, state = Output(store), a_state(attempts=(an_attempt(),))
    chunk(store, "node-0.rank-0.attempt-0", 0, "a", "b")
    output.relay.poll(state)
    output.relay.poll(state)
    chunk(store, "node-0.rank-0.attempt-0", 1, "c")
    chunk(store, "node-0.rank-0.attempt-0", 2, "d")
    output.relay.poll(state)
    assert output.lines == ["a", "b", "c", "d"]


def test_other_ranks_are_silent_until_one_is_the_first_to_fail(store: ObjectStore) -> None:
    output = Output(store)
    chunk(store, "node-1.rank-3.attempt-0", 0, "boom")
    chunk(store, "node-1.rank-2.attempt-0", 0, "killed later")
    output.relay.poll(a_state(attempts=(an_attempt(),)))
    assert output.lines == []
    output.relay.poll(a_state(attempts=(an_attempt(failure=a_failure(rank=3, node_rank=1)),)))
    assert output.lines == ["boom"]


def test_every_attempt_is_followed(store: ObjectStore) -> None:
    output = Output(store)
    chunk(store, "node-0.rank-0.attempt-0", 0, "first")
    chunk(store, "node-0.rank-0.attempt-1", 0, "second")
    output.relay.poll(a_state(attempts=(an_attempt(), an_attempt(attempt=1))))
    assert output.lines == ["first", "second"]


def test_a_flood_is_cut_to_its_end_and_the_cut_is_said(store: ObjectStore) -> None:
    output = Output(store)
    chunk(store, "node-0.rank-0.attempt-0", 0, *("x" * 1000 for _ in range(2000)), "the end")
    output.relay.poll(a_state(attempts=(an_attempt(),)))
    assert output.lines[0] == "1743 lines of node-0.rank-0.attempt-0 left out here"
    assert output.lines[-1] == "the end"
    assert sum(len(line) for line in output.lines) < 300_000
