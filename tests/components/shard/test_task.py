"""Tasks publish shard by shard, repeat nothing, and notice everything that is not as it was."""

import hashlib
from pathlib import Path

import pytest

from components.contracts.dataset import BadRecord, ShardReceipt
from components.errors import ArgosyError, BadInput
from components.shard.task import run_task
from components.storage.local import LocalStore
from tests.components.shard.building import LOG, a_corpus, a_spec, entries, plan, shard_file


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "storage")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return a_corpus(tmp_path / "corpus")


def run(store: LocalStore, plan_id: str, index: int = 0, of: int = 1) -> ShardReceipt:
    return run_task(store, plan_id=plan_id, task_index=str(index), num_tasks=of, log=LOG)


def files_of(store: LocalStore, *, but: str = "receipts") -> dict[str, bytes]:
    return {info.key: store.read(info.key) for info in store.list("data") if but not in info.key}


def shards_in(store: LocalStore) -> list[str]:
    return [info.key for info in store.list("data/shards")]


def test_shards_are_dealt_out_in_turn(store: LocalStore, corpus: Path) -> None:
    plan_id = plan(store, a_spec(corpus))

    receipts = [run(store, plan_id, index, of=3) for index in range(3)]

    assert [[shard.index for shard in receipt.shards] for receipt in receipts] == [[0, 3, 6], [1, 4], [2, 5]]


def test_a_task_without_shards_leaves_an_empty_receipt(store: LocalStore, corpus: Path) -> None:
    assert run(store, plan(store, a_spec(corpus)), 8, of=9).shards == ()


def test_the_bytes_do_not_depend_on_the_number_of_tasks(tmp_path: Path, corpus: Path) -> None:
    alone, many = LocalStore(tmp_path / "alone"), LocalStore(tmp_path / "many")

    run(alone, plan(alone, a_spec(corpus)))
    for index in range(4):
        run(many, plan(many, a_spec(corpus)), index, of=4)

    assert files_of(alone) == files_of(many)


@pytest.mark.parametrize("lost", ["receipt", "json", "idx", "idx and json", "ends", "everything"])
def test_a_repeated_task_makes_the_same_bytes_and_only_what_is_missing(
    store: LocalStore, corpus: Path, lost: str
) -> None:
    plan_id = plan(store, a_spec(corpus))
    first = run(store, plan_id)
    before, written = files_of(store), {}
    gone = {shard_file(store, plan_id, 2, suffix) for suffix in lost.split(" and ")}
    for path in sorted((store.root / "data").rglob("*")):
        if not path.is_file():
            continue
        if "receipts" in str(path) or path in gone or (lost == "everything" and "shards" in path.parts):
            path.unlink()
        else:
            written[path] = path.stat().st_mtime_ns

    assert run(store, plan_id) == first
    assert files_of(store) == before
    assert {path: path.stat().st_mtime_ns for path in written} == written


def test_a_finished_shard_is_reused_when_its_inputs_are_gone(store: LocalStore, corpus: Path) -> None:
    plan_id = plan(store, a_spec(corpus))
    first = run(store, plan_id)
    for path in corpus.iterdir():
        path.unlink()

    assert run(store, plan_id, 0, of=2).shards == first.shards[::2]


@pytest.mark.parametrize("damage", ["flipped bit", "cut short"])
def test_a_damaged_shard_is_never_reused(store: LocalStore, corpus: Path, damage: str) -> None:
    plan_id = plan(store, a_spec(corpus))
    run(store, plan_id)
    path = shard_file(store, plan_id, 1, "bin")
    content = bytearray(path.read_bytes())
    content[7] ^= 1
    path.write_bytes(content if damage == "flipped bit" else content[:-2])

    with pytest.raises(BadInput, match=rf"ShardDamaged: .*{path.stem}\.json says it is") as caught:
        run(store, plan_id)
    assert f"{path.name}, byte 0: differs within" in str(caught.value)
    assert shards_in(store) == sorted(shards_in(store))


def test_other_bytes_in_the_place_of_a_shard_are_an_error(store: LocalStore, corpus: Path) -> None:
    plan_id = plan(store, a_spec(corpus))
    store.create(f"data/shards/{entries(store, plan_id)[0].id}.bin", b"somebody else's")
    digest = hashlib.sha256(b"somebody else's").hexdigest()

    with pytest.raises(
        BadInput, match=rf"OutputDiffers: .*\.bin exists with other bytes .* sha256 {digest}, not [0-9a-f]"
    ):
        run(store, plan_id)


def grow(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"x")


def touch(path: Path) -> None:
    path.write_bytes(path.read_bytes())


def remove(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (grow, "had 111 bytes when the plan was made, now 112"),
        (touch, "was modified since the plan was made"),
        (remove, "is gone since the plan was made"),
    ],
)
def test_an_input_that_changed_since_the_plan_is_named(
    store: LocalStore, corpus: Path, change: object, said: str
) -> None:
    plan_id = plan(store, a_spec(corpus))
    change(corpus / "03")  # type: ignore[operator]
    change(corpus / "04")  # type: ignore[operator]

    with pytest.raises(BadInput) as caught:
        run(store, plan_id)
    assert caught.value.reason == "InputChanged"
    assert str(caught.value.problems[0]) == f"{corpus}/03: {said}"
    assert len(caught.value.problems) == 2
    assert shards_in(store) == []


def make_unreadable(path: Path) -> None:
    """A folder in its place opens and cannot be read, for any user."""
    path.unlink()
    path.mkdir()


def test_an_input_that_cannot_be_read_is_left_out_within_the_budget(store: LocalStore, corpus: Path) -> None:
    plan_id = plan(store, a_spec(corpus, max_bad_records=1))
    make_unreadable(corpus / "03")

    receipt = run(store, plan_id)

    assert receipt.quarantine.records == (BadRecord(path="03", reason="Is a directory"),)
    (file,) = receipt.quarantine.files
    assert store.read(f"data/shards/{file.path}") == b'{"path":"03","reason":"Is a directory"}\n'
    assert receipt.counts.num_inputs == 12
    assert sum(shard.num_documents for shard in receipt.shards) == 10


def test_one_unreadable_input_too_many_stops_the_task_before_it_publishes(store: LocalStore, corpus: Path) -> None:
    plan_id = plan(store, a_spec(corpus, max_bad_records=1))
    make_unreadable(corpus / "03")
    make_unreadable(corpus / "04")

    with pytest.raises(BadInput, match="TooManyBadRecords") as caught:
        run(store, plan_id)
    assert [problem.where for problem in caught.value.problems] == ["03", "04"]
    assert shards_in(store) == []


@pytest.mark.parametrize("index", ["", "-1", "2", "x", "1.0"])
def test_a_task_index_outside_the_tasks_is_refused(store: LocalStore, corpus: Path, index: str) -> None:
    plan_id = plan(store, a_spec(corpus))

    with pytest.raises(BadInput, match=r"pass --input task_index=0 … 1"):
        run_task(store, plan_id=plan_id, task_index=index, num_tasks=2, log=LOG)


def test_a_full_store_ends_the_task_with_the_stores_words(store: LocalStore, corpus: Path) -> None:
    plan_id = plan(store, a_spec(corpus))
    (store.root / "data" / "plans" / plan_id / "receipts").write_text("a file where a folder should be")

    with pytest.raises(ArgosyError, match="a file stands where a folder should be"):
        run(store, plan_id)
