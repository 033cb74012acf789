"""Snapshots of the log: fewer requests, the same state, and never believed when the records say otherwise."""

import json
from collections.abc import Callable, Iterator

import pytest

from components.ledger.ledger import Ledger, LedgerDamaged
from components.ledger.records import Begin
from components.ledger.state import LedgerState
from components.storage.base import ObjectInfo, ObjectStore, StorageError
from tests.components.ledger.building import a_ledger
from tests.components.ledger.counting import CountingStore
from tests.components.ledger.memory import MemoryStore

LOG = "checkpoints/gpt/v1/log"
FIRST, SECOND = f"{LOG}/snapshot-000000000256.jsonl", f"{LOG}/snapshot-000000000512.jsonl"
NEWEST = f"{LOG}/snapshot-newest"


def next_term(state: LedgerState) -> Begin:
    return Begin(term=state.term + 1, run="gpt-aaaaa", generation=0, attempt=0, reason="start", charged=False)


@pytest.fixture(scope="module")
def objects() -> dict[str, bytes]:
    """A log of 515 records and its two snapshots."""
    store = MemoryStore()
    ledger = a_ledger(store)
    for _ in range(515):
        ledger.append(next_term, from_known=True)
    return store.objects


@pytest.fixture
def logged(objects: dict[str, bytes]) -> Callable[[int], CountingStore]:
    """Makes a store with the first so many records, the snapshots of the whole blocks and the note of the newest."""

    def make(num_records: int) -> CountingStore:
        names = {f"{LOG}/{seq:012d}.json" for seq in range(1, num_records + 1)}
        names |= {f"{LOG}/snapshot-{seq:012d}.jsonl" for seq in range(256, num_records + 1, 256)}
        kept = {key: data for key, data in objects.items() if key in names}
        if num_records >= 256:
            kept[NEWEST] = f"{num_records // 256 * 256}\n".encode()
        return CountingStore(MemoryStore(kept))

    return make


class ListingStore(CountingStore):
    """Remembers what its listings showed."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self.shown: list[str] = []

    def list(self, prefix: str, *, after: str = "") -> Iterator[ObjectInfo]:
        found = list(super().list(prefix, after=after))
        self.shown += [item.key.rpartition("/")[2] for item in found]
        return iter(found)


def test_writers_leave_a_note_of_the_newest_snapshot(objects: dict[str, bytes]) -> None:
    assert objects[NEWEST] == b"512\n"


def test_a_long_log_is_read_with_one_short_listing_and_a_request_a_block(
    logged: Callable[[int], CountingStore],
) -> None:
    store = ListingStore(logged(515))

    state = a_ledger(store).state()

    assert state.term == 515
    # The note, two blocks, three records, and no record 516.
    assert store.counted() == {"LIST": 1, "GET": 1 + 2 + 3 + 1}
    assert store.shown == [
        "000000000512.json", "000000000513.json", "000000000514.json", "000000000515.json",
        "snapshot-000000000256.jsonl", "snapshot-000000000512.jsonl", "snapshot-newest",
    ]  # fmt: skip


def test_a_log_that_ends_with_a_block_is_proved_by_its_last_record(logged: Callable[[int], CountingStore]) -> None:
    store = logged(256)

    assert a_ledger(store).state().term == 256
    assert store.counted() == {"LIST": 1, "GET": 1 + 1 + 1 + 1}


@pytest.mark.parametrize(
    "note",
    [b"", b"512", b"256\n", b"255\n", b"0\n", b"768\n", b"1024\n", b"999999999999\n", b"-256\n", b"512\n512\n",
     b"\xff" * 1_000_000, b"\xd9\xa5\xd9\xa1\xd9\xa2\n"],
)  # fmt: skip
def test_a_wrong_note_of_the_newest_snapshot_costs_requests_and_nothing_else(
    logged: Callable[[int], CountingStore], note: bytes
) -> None:
    store = logged(515)
    expected = a_ledger(store).state()
    store.replace(NEWEST, note)

    ledger = a_ledger(store)
    assert ledger.state() == expected

    ledger.append(next_term)
    assert a_ledger(store).state().term == 516


def test_a_note_beyond_the_last_record_is_no_record(logged: Callable[[int], CountingStore]) -> None:
    store = logged(515)
    for seq in (512, 513, 514, 515):
        store.delete(f"{LOG}/{seq:012d}.json")

    assert a_ledger(store).state().term == 511


def test_what_the_snapshots_prove_needs_its_records_no_more(logged: Callable[[int], CountingStore]) -> None:
    store = logged(515)
    expected = a_ledger(store).state()
    store.delete(f"{LOG}/000000000007.json")

    assert a_ledger(store).state() == expected


def test_whoever_fills_a_gap_below_a_snapshot_is_found_out_at_once(logged: Callable[[int], CountingStore]) -> None:
    store = logged(515)
    zombie = a_ledger(logged(6))
    zombie.state()
    zombie.store = zombie._reader._store = store
    store.delete(f"{LOG}/000000000007.json")

    zombie.append(next_term, from_known=True)  # it had read six records when it fell asleep
    with pytest.raises(LedgerDamaged, match=r"BrokenChain: .*000000000007\.json is not the record that 000000000008"):
        zombie.state()
    assert a_ledger(store).state().term == 515


@pytest.mark.parametrize("key", [FIRST, SECOND])
def test_a_lost_record_below_a_lost_snapshot_is_missed(logged: Callable[[int], CountingStore], key: str) -> None:
    store = logged(515)
    store.delete(key)
    store.delete(f"{LOG}/000000000007.json" if key == FIRST else f"{LOG}/000000000300.json")

    with pytest.raises(LedgerDamaged, match=r"MissingRecord: .*0(007|300)\.json is missing"):
        a_ledger(store).state()


def test_a_record_lost_after_the_newest_snapshot_is_missed(logged: Callable[[int], CountingStore]) -> None:
    store = logged(515)
    store.delete(f"{LOG}/000000000513.json")

    with pytest.raises(LedgerDamaged, match=r"MissingRecord: .*000000000513\.json is missing, though 2 later ones"):
        a_ledger(store).state()


def test_appending_costs_one_request_when_nobody_else_wrote(logged: Callable[[int], CountingStore]) -> None:
    store = logged(1)
    ledger = a_ledger(store)
    ledger.state()
    store.counted()

    ledger.append(next_term, from_known=True)

    assert store.counted() == {"PUT": 1}


def test_appending_from_old_news_finds_out_and_decides_again(logged: Callable[[int], CountingStore]) -> None:
    store = logged(1)
    ledger = a_ledger(store)
    ledger.state()
    a_ledger(store).append(next_term)

    record = ledger.append(next_term, from_known=True)

    assert record is not None
    assert (record.seq, record.change) == (3, next_term(LedgerState(term=2)))


def flipped(data: bytes) -> bytes:
    return data.replace(b'"reason":"start"', b'"reason":"stArt"', 1)


def last_line_changed(data: bytes) -> bytes:
    return b"".join([*data.splitlines(keepends=True)[:-1], flipped(data.splitlines(keepends=True)[-1])])


@pytest.mark.parametrize(
    "damage",
    [flipped, last_line_changed, lambda data: data[:-1], lambda data: data[:5000], lambda data: b"",
     lambda data: data + b"\n", lambda data: b"\n".join(sorted(data.splitlines(), reverse=True)) + b"\n"],
    ids=["a changed record", "a changed last record", "no end", "cut", "empty", "a line more", "another order"],
)  # fmt: skip
@pytest.mark.parametrize("key", [FIRST, SECOND])
def test_a_wrong_snapshot_is_read_around_and_replaced_by_the_next_writer(
    logged: Callable[[int], CountingStore], damage: Callable[[bytes], bytes], key: str
) -> None:
    store = logged(513)
    right, expected = store.read(key), a_ledger(store).state()
    store.replace(key, damage(right))

    ledger = a_ledger(store)
    assert ledger.state() == expected
    assert store.read(key) != right  # a reader writes nothing

    ledger.append(next_term)
    assert store.read(key) == right


def test_a_snapshot_is_the_same_whoever_writes_it(logged: Callable[[int], CountingStore]) -> None:
    store = logged(300)
    right = store.read(FIRST)
    store.delete(FIRST)

    a_ledger(store).append(next_term)

    assert store.read(FIRST) == right
    assert [json.loads(line)["seq"] for line in right.splitlines()] == list(range(1, 257))


def test_a_snapshot_that_nobody_noted_does_not_stand_in_for_a_missing_record(
    logged: Callable[[int], CountingStore],
) -> None:
    store = logged(300)
    store.delete(NEWEST)
    store.delete(f"{LOG}/000000000007.json")

    with pytest.raises(LedgerDamaged, match=r"MissingRecord: .*000000000007\.json is missing, though 293 later"):
        a_ledger(store).state()


def test_a_snapshot_without_records_is_no_log(logged: Callable[[int], CountingStore]) -> None:
    assert a_ledger(MemoryStore({FIRST: logged(256).read(FIRST)})).state() == LedgerState()


class FullStore(CountingStore):
    """Takes records but no snapshots."""

    def replace(self, key: str, data: bytes) -> None:
        raise StorageError("StorageRefused", "no space left")


def test_a_store_without_room_for_a_snapshot_still_takes_records() -> None:
    store = FullStore(MemoryStore())
    ledger = a_ledger(store)
    for _ in range(260):
        ledger.append(next_term, from_known=True)

    assert a_ledger(store).state().term == 260


def test_a_replaced_record_is_noticed_by_the_one_after_it() -> None:
    store = MemoryStore()
    for _ in range(3):
        a_ledger(store).append(next_term)
    key = f"{LOG}/000000000002.json"
    store.replace(key, store.read(key).replace(b'"reason":"start"', b'"reason":"other"'))

    with pytest.raises(LedgerDamaged, match=r"BrokenChain: .*000000000002\.json is not the record that 000000000003"):
        a_ledger(store).state()


def test_a_log_from_before_records_named_each_other_is_still_read() -> None:
    store = MemoryStore()
    for _ in range(3):
        a_ledger(store).append(next_term)
    for seq in (1, 2, 3):
        key = f"{LOG}/{seq:012d}.json"
        value = json.loads(store.read(key))
        value.pop("previous", None)
        store.replace(key, json.dumps(value).encode())

    ledger = Ledger(store, "gpt", "v1")
    ledger.append(next_term)
    assert a_ledger(store).state().term == 4
