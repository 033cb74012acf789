"""Samples on their way to a format: batches that do not depend on how samples came, columns as a schema wants them."""

from components.dataset.batches import BATCH_BYTES, BATCH_SAMPLES, Batch, Column, Run, Sample, batched, conform, runs_of
from components.dataset.inputs import Input

ITEM = Input("tar", "a.tar", 0, "")
TEXT, NUMBER = Column("text", "text"), Column("n", "int")
ONE, TWO = (TEXT,), (TEXT, NUMBER)


def a_batch(sizes: list[int], *, first: int = 0) -> Batch:
    return Batch([str(first + number) for number in range(len(sizes))], ONE, [[bytes(size) for size in sizes]])


def test_batches_end_at_the_same_samples_however_they_came() -> None:
    sizes = [BATCH_BYTES - 2, 1, 1, 5, BATCH_BYTES + 7, 3, *[0] * (BATCH_SAMPLES + 10)]
    at_once = list(batched([a_batch(sizes)]))
    one_by_one = list(batched(a_batch([size], first=number) for number, size in enumerate(sizes)))
    in_parts = list(batched([a_batch(sizes[:3]), a_batch(sizes[3:700], first=3), a_batch(sizes[700:], first=700)]))
    assert at_once == one_by_one == in_parts
    assert [len(batch.keys) for batch in at_once] == [4, 1, BATCH_SAMPLES, 11]


def test_a_batch_ends_where_the_fields_change() -> None:
    found = list(batched([a_batch([1, 2]), Batch(["x"], TWO, [[b"a"], [b"1"]]), a_batch([3], first=2)]))
    assert [batch.columns for batch in found] == [ONE, TWO, ONE]


def test_samples_that_come_one_by_one_keep_place_and_order() -> None:
    samples = [(ITEM, 10, Sample("a", ONE, [b"x"])), (ITEM, 20, Sample("b", ONE, [b"y"]))]
    other = [(ITEM, 30, Sample("c", TWO, [b"z", b"1"]))]
    assert list(runs_of([*samples, *other])) == [
        Run(ITEM, [10, 20], Batch(["a", "b"], ONE, [[b"x", b"y"]])),
        Run(ITEM, [30], Batch(["c"], TWO, [[b"z"], [b"1"]])),
    ]


def test_samples_of_many_inputs_travel_together_and_each_knows_its_own() -> None:
    others = [ITEM._replace(path=name) for name in ("one", "two", "three")]
    raw = (Column("n", "bytes"),)
    samples = [
        (item, 0, Sample(item.path, raw, [value])) for item, value in zip(others, [b"1", b"x", b"3"], strict=True)
    ]
    (run,) = runs_of(samples)
    assert [run.input_of(number) for number in range(3)] == others

    rejected = list[str]()
    (found,) = conform(
        run, (NUMBER,), may_have_more=False, reject=lambda number, _: rejected.append(run.input_of(number).path)
    )
    assert rejected == ["two"]
    assert [found.input_of(number).path for number in range(2)] == ["one", "three"]


def test_columns_are_picked_and_the_key_becomes_one() -> None:
    rejected = list[tuple[int, str]]()
    run = Run(ITEM, [1, 2], Batch(["a", "b"], TWO, [[b"x", b"y"], [b"1", b"2"]]))
    schema = (Column("n", "float"), Column("key", "text"))
    (found,) = conform(run, schema, may_have_more=True, reject=lambda *what: rejected.append(what))
    assert found.batch == Batch(["a", "b"], schema, [[b"1", b"2"], [b"a", b"b"]])
    assert rejected == []


def test_samples_that_do_not_fit_are_rejected_one_by_one() -> None:
    rejected = list[tuple[int, str]]()
    raw = (Column("n", "bytes"),)
    run = Run(ITEM, [1, 2, 3], Batch(["a", "b", "c"], raw, [[b"1", b"one", b"3"]]))
    (found,) = conform(run, (NUMBER,), may_have_more=False, reject=lambda *what: rejected.append(what))
    assert found == Run(ITEM, [1, 3], Batch(["a", "c"], (NUMBER,), [[b"1", b"3"]]))
    assert [number for number, _ in rejected] == [1]


def test_a_key_that_is_no_text_costs_its_sample_alone() -> None:
    rejected = list[tuple[int, str]]()
    run = Run(ITEM, [1, 2], Batch(["a", "b\udcff"], ONE, [[b"x", b"y"]]))
    schema = (Column("key", "text"), TEXT)
    (found,) = conform(run, schema, may_have_more=False, reject=lambda *what: rejected.append(what))
    assert found.batch.keys == ["a"]
    assert [number for number, _ in rejected] == [1]
