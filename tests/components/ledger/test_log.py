"""The log: one winner a position, one's own record recognised, and nothing unreadable ever skipped."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest

from components.errors import Transient
from components.ledger.ledger import Ledger, LedgerDamaged
from components.ledger.records import Begin, Record
from components.ledger.state import LedgerState
from components.storage.base import ObjectInfo
from components.storage.local import LocalStore
from tests.components.ledger.building import a_ledger

LOG = "checkpoints/gpt/v1/log"


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path)


def next_term(state: LedgerState) -> Begin:
    return Begin(term=state.term + 1, run="gpt-aaaaa", generation=0, attempt=0, reason="start", charged=False)


def test_an_empty_store_is_a_ledger_without_records(store: LocalStore) -> None:
    assert a_ledger(store).state() == LedgerState()


def test_racing_writers_each_get_a_position_of_their_own(store: LocalStore) -> None:
    def write() -> None:
        ledger = a_ledger(store)
        for _ in range(20):
            ledger.append(next_term)

    writers = [threading.Thread(target=write) for _ in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()

    assert [begin.term for begin in a_ledger(store).state().begins] == list(range(1, 81))


def test_a_decision_to_do_nothing_writes_nothing(store: LocalStore) -> None:
    assert a_ledger(store).append(lambda state: None) is None
    assert list(store.list(LOG)) == []


def test_two_observers_of_one_log_agree_however_they_read_it(store: LocalStore) -> None:
    writer, follower = a_ledger(store), a_ledger(store)
    for _ in range(5):
        writer.append(next_term)
        follower.state()

    assert follower.state() == writer.state() == a_ledger(store).state()


class FlakyStore:
    """A store at the end of a bad line: requests or answers get lost. Everything else is the real one."""

    def __init__(self, store: LocalStore, losses: Iterator[str]) -> None:
        self._store, self._losses = store, losses

    @property
    def uri(self) -> str:
        return self._store.uri

    def create(self, key: str, data: bytes | bytearray) -> None:
        loss = next(self._losses, "")
        if loss == "request":
            raise Transient("StorageNotAnswering", "no answer")
        self._store.create(key, data)
        if loss == "answer":
            raise Transient("StorageNotAnswering", "no answer")

    def create_from(self, key: str, source: Path) -> str:
        return self._store.create_from(key, source)

    def replace(self, key: str, data: bytes) -> None:
        self._store.replace(key, data)

    def read(self, key: str) -> bytes:
        return self._store.read(key)

    def open(self, key: str) -> BinaryIO:
        return self._store.open(key)

    def find(self, key: str) -> ObjectInfo | None:
        return self._store.find(key)

    def list(self, prefix: str, *, after: str = "") -> Iterator[ObjectInfo]:
        return self._store.list(prefix, after=after)

    def delete(self, key: str) -> None:
        self._store.delete(key)

    def uri_of(self, key: str) -> str:
        return self._store.uri_of(key)

    def local_path(self, key: str) -> Path | None:
        return self._store.local_path(key)


@pytest.mark.parametrize("losses", [["answer"], ["request"], ["request", "request", "answer"]])
def test_a_record_whose_answer_was_lost_is_recognised_and_not_written_twice(
    store: LocalStore, losses: list[str]
) -> None:
    ledger = Ledger(FlakyStore(store, iter(losses)), "gpt", "v1", pause=lambda seconds: None)

    record = ledger.append(next_term)

    assert record is not None
    assert record.seq == 1
    assert [begin.term for begin in a_ledger(store).state().begins] == [1]


def test_a_store_that_never_answers_is_reported_as_transient(store: LocalStore) -> None:
    ledger = Ledger(FlakyStore(store, iter(["request"] * 99)), "gpt", "v1", pause=lambda seconds: None)

    with pytest.raises(Transient):
        ledger.append(next_term)


def written(store: LocalStore, *, num_records: int = 3) -> None:
    ledger = a_ledger(store)
    for _ in range(num_records):
        ledger.append(next_term)


def rewrite(store: LocalStore, seq: int, **changes: object) -> None:
    key = f"{LOG}/{seq:012d}.json"
    store.replace(key, json.dumps({**json.loads(store.read(key)), **changes}).encode())


def test_a_torn_record_is_named_and_never_skipped(store: LocalStore) -> None:
    written(store)
    store.replace(f"{LOG}/000000000003.json", store.read(f"{LOG}/000000000003.json")[:40])

    with pytest.raises(LedgerDamaged, match=r"TornRecord: .*/log/000000000003\.json \(40 bytes\) is not a readable"):
        a_ledger(store).state()
    assert [item.size_bytes for item in store.list(LOG)][2] == 40


def test_a_record_from_a_newer_version_says_so(store: LocalStore) -> None:
    written(store)
    rewrite(store, 2, version=7)

    with pytest.raises(LedgerDamaged, match=r"FutureRecord: .*000000000002\.json is a record of version 7"):
        a_ledger(store).state()


def test_a_record_without_nonce_is_refused(store: LocalStore) -> None:
    written(store, num_records=1)
    key = f"{LOG}/000000000001.json"
    value = json.loads(store.read(key))
    del value["nonce"]
    store.replace(key, json.dumps(value).encode())

    with pytest.raises(LedgerDamaged, match="nonce: Field required"):
        a_ledger(store).state()


def test_a_missing_record_in_the_middle_is_named(store: LocalStore) -> None:
    written(store)
    store.delete(f"{LOG}/000000000002.json")

    with pytest.raises(LedgerDamaged, match=r"MissingRecord: .*000000000002\.json is missing, though 1 later"):
        a_ledger(store).state()


def test_a_log_copied_from_another_experiment_is_refused(store: LocalStore) -> None:
    written(store, num_records=1)
    store.create("checkpoints/other/v1/log/000000000001.json", store.read(f"{LOG}/000000000001.json"))

    with pytest.raises(LedgerDamaged, match=r"ForeignRecord: .* holds record 1 of gpt/v1"):
        a_ledger(store, experiment="other").state()


def test_a_record_at_the_wrong_position_is_refused(store: LocalStore) -> None:
    written(store, num_records=1)
    store.create(f"{LOG}/000000000002.json", store.read(f"{LOG}/000000000001.json"))

    with pytest.raises(LedgerDamaged, match="ForeignRecord"):
        a_ledger(store).state()


def test_a_record_whose_name_is_misspelt_is_refused(store: LocalStore) -> None:
    written(store, num_records=1)
    store.create(f"{LOG}/2.json", b"{}")

    with pytest.raises(LedgerDamaged, match=r"ForeignRecord: .*/2\.json is not how a record is called"):
        a_ledger(store).state()


def test_files_that_are_not_records_say_nothing(store: LocalStore) -> None:
    written(store, num_records=1)
    store.create(f"{LOG}/.nfs0001", b"x")
    store.create(f"{LOG}/snapshot-000000000001.json", b"x")

    assert a_ledger(store).state().seq == 1


def test_what_contradicts_the_log_is_refused_before_it_is_written(store: LocalStore) -> None:
    written(store, num_records=1)

    with pytest.raises(LedgerDamaged, match="begins term 9 after term 1"):
        a_ledger(store).append(lambda state: next_term(state).model_copy(update={"term": 9}))
    assert len(list(store.list(LOG))) == 1


def test_a_record_reads_back_as_it_was_written(store: LocalStore) -> None:
    record = a_ledger(store).append(next_term)

    assert record is not None
    assert Record.from_bytes(store.read(f"{LOG}/000000000001.json"), where="") == record
