"""Planning refuses what cannot be packed, every fault at once, and plans the rest the same way every time."""

from pathlib import Path

import pytest

from components.contracts.dataset import BadRecord, ReadOptions
from components.errors import BadInput
from components.shard.plan_file import read_plan
from components.storage.local import LocalStore
from tests.components.shard.building import a_corpus, a_spec, entries, plan
from tests.components.shard.formats import spec


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "storage")


def refused(store: LocalStore, corpus: object, **changed: object) -> BadInput:
    with pytest.raises(BadInput) as caught:
        plan(store, a_spec(corpus, **changed))
    assert caught.value.reason == "CorpusRefused"
    assert list(store.list("data")) == []
    return caught.value


def test_the_same_corpus_gives_the_same_plan_and_writes_it_once(store: LocalStore, tmp_path: Path) -> None:
    corpus = a_corpus(tmp_path / "corpus")

    first = plan(store, a_spec(corpus, num_tasks=1))
    second = plan(store, a_spec(corpus, num_tasks=5))

    assert first == second
    *stored, witness = [info.key for info in store.list("data")]
    assert stored == [f"data/plans/{first}/parts/000000.jsonl", f"data/plans/{first}/plan.json"]
    assert witness.startswith(f"data/plans/{first}/seen/")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            {"read": ReadOptions(read_as="labelled_folders")},
            "read_as: labelled_folders has no meaning with format tokens",
        ),
        ({"read": ReadOptions(key_field="id")}, "key_field: has no meaning with format tokens"),
        ({"read": ReadOptions(text_field="body")}, "text_field: is 'body', and no input is read as rows or as a tar"),
    ],
)
def test_a_setting_that_would_be_ignored_is_refused_by_name(
    store: LocalStore, tmp_path: Path, changed: dict[str, object], said: str
) -> None:
    assert said in str(refused(store, a_corpus(tmp_path / "corpus"), **changed))


def test_a_key_field_is_refused_where_no_input_has_rows(store: LocalStore, tmp_path: Path) -> None:
    wanted = spec(a_corpus(tmp_path / "corpus"), "webdataset", key_field="id")
    with pytest.raises(BadInput, match="key_field: is 'id', and no input is read as rows; leave it out"):
        plan(store, wanted)


def test_a_changed_corpus_or_option_gives_another_plan(store: LocalStore, tmp_path: Path) -> None:
    corpus = a_corpus(tmp_path / "corpus")
    plans = {plan(store, a_spec(corpus)), plan(store, a_spec(corpus, over_long="truncate"))}

    (corpus / "00").write_bytes(b"x")
    plans.add(plan(store, a_spec(corpus)))

    assert len(plans) == 3


def test_empty_files_are_kept_in_the_plan(store: LocalStore, tmp_path: Path) -> None:
    plan_id = plan(store, a_spec(a_corpus(tmp_path / "corpus", num_files=3)))

    assert [item.size for entry in entries(store, plan_id) for item in entry.inputs] == [0, 37, 74]


def test_a_missing_corpus_and_impossible_options_are_told_together(store: LocalStore, tmp_path: Path) -> None:
    error = refused(store, tmp_path / "nowhere", sequence_length=1, target_shard_bytes=10**9)

    assert [problem.where for problem in error.problems] == [
        "sequence_length", "target_shard_bytes", f"corpus {tmp_path}/nowhere",
    ]  # fmt: skip


def test_a_corpus_without_files_is_refused(store: LocalStore, tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()

    assert "no file found in" in str(refused(store, tmp_path / "corpus"))
    assert "no file found in" in str(refused(store, tmp_path / "corpus" / "*.txt"))


def test_a_corpus_of_empty_files_is_refused(store: LocalStore, tmp_path: Path) -> None:
    assert "all 1 files found" in str(refused(store, a_corpus(tmp_path / "corpus", num_files=1)))


def test_a_corpus_that_is_dropped_altogether_is_refused(store: LocalStore, tmp_path: Path) -> None:
    assert "leaves no document" in str(refused(store, a_corpus(tmp_path / "corpus"), over_long="drop"))


def test_unreadable_files_are_named_up_to_twenty(store: LocalStore, tmp_path: Path) -> None:
    corpus = a_corpus(tmp_path / "corpus")
    for place in range(25):
        (corpus / f"lost-{place:02d}").symlink_to("/nowhere")

    error = refused(store, corpus, max_bad_records=3)

    assert str(error.problems[0]) == "lost-00: cannot be read: No such file or directory"
    assert str(error.problems[20]) == "…: and 5 more"
    assert str(error.problems[21]).startswith("bad_records.max: 25 files cannot be read and 3 may be left out")
    assert len(error.problems) == 22


def test_unreadable_files_within_the_budget_are_recorded_in_the_plan(store: LocalStore, tmp_path: Path) -> None:
    corpus = a_corpus(tmp_path / "corpus")
    (corpus / "lost").symlink_to("/nowhere")

    plan_id = plan(store, a_spec(corpus, max_bad_records=1))

    assert read_plan(store, plan_id).bad_records == (BadRecord(path="lost", reason="No such file or directory"),)


def test_over_long_error_names_the_documents(store: LocalStore, tmp_path: Path) -> None:
    error = refused(store, a_corpus(tmp_path / "corpus", num_files=4), over_long="error", sequence_length=64)

    assert [str(problem) for problem in error.problems] == [
        "02: 74 bytes are more than one sequence",
        "03: 111 bytes are more than one sequence",
        "over_long: is error; 2 documents exceed sequence_length 64; "
        "use split, truncate or drop, or a longer sequence_length",
    ]


def test_storage_inside_the_corpus_is_refused(tmp_path: Path) -> None:
    corpus = a_corpus(tmp_path / "corpus")
    inside = LocalStore(corpus / "argosy")
    inside.replace("runs/r/record", b"")

    with pytest.raises(BadInput, match="is the storage itself, inside the corpus"):
        plan(inside, a_spec(corpus))


def test_an_edited_plan_is_noticed(store: LocalStore, tmp_path: Path) -> None:
    plan_id = plan(store, a_spec(a_corpus(tmp_path / "corpus")))
    head, part = (store.root / "data" / "plans" / plan_id / name for name in ("plan.json", "parts/000000.jsonl"))
    part.write_bytes(part.read_bytes().replace(b'"01",37', b'"01",38'))

    with pytest.raises(BadInput, match="PlanDamaged"):
        entries(store, plan_id)
    part.unlink()
    with pytest.raises(BadInput, match="PlanMissing"):
        entries(store, plan_id)
    head.write_bytes(head.read_bytes().replace(b'"num_inputs":12', b'"num_inputs":13'))
    with pytest.raises(BadInput, match="PlanDamaged"):
        read_plan(store, plan_id)
    with pytest.raises(BadInput, match="run shard plan first"):
        read_plan(store, "p-0000000000000000")
    with pytest.raises(BadInput, match="no plan_id was given"):
        read_plan(store, "")
