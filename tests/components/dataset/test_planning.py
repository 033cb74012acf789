"""Where shards begin and end, and what each takes of its inputs."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.contracts.dataset import PackingOptions, ReadOptions, SampleOptions
from components.dataset.inputs import EntryWriter, Input, read_line
from components.dataset.planning import (
    Unit,
    byte_units,
    check_options,
    count_extracts,
    even_units,
    extract,
    is_too_long,
    plan_shards,
)


def inputs_of(*sizes: int) -> list[Input]:
    return [Input("file", f"{place:04d}", size, 0) for place, size in enumerate(sizes)]


def options(**changed: Any) -> PackingOptions:
    return PackingOptions(**{"sequence_length": 10, "over_long": "split", **changed})


def units_of(sizes: list[int], target: int, **changed: Any) -> list[Unit]:
    return [unit for item in inputs_of(*sizes) for unit in byte_units(item, options(**changed), target=target)]


def shards_of(sizes: list[int], target: int, **changed: Any) -> list[list[tuple[str, int, int]]]:
    """Path, start and end of everything in each shard."""
    shards = plan_shards(units_of(sizes, target, **changed), target=target)
    return [[(unit.item.path, unit.item.start, unit.item.end) for unit in shard] for shard in shards]


def sizes_of_shards(sizes: list[int], target: int) -> list[int]:
    return [len(shard) for shard in shards_of(sizes, target)]


def test_a_shard_ends_before_it_would_exceed_the_target() -> None:
    assert sizes_of_shards([40, 40, 40, 40, 90], target=100) == [2, 2, 1]


def test_empty_files_belong_to_a_shard_and_open_none() -> None:
    assert sizes_of_shards([0, 98, 0, 0, 98, 0], target=100) == [4, 2]


def test_a_large_file_is_cut_at_multiples_of_the_sequence_length() -> None:
    assert shards_of([5, 250, 5], target=105) == [
        [("0000", 0, -1)], [("0001", 0, 100)], [("0001", 100, 200)], [("0001", 200, -1), ("0002", 0, -1)],
    ]  # fmt: skip


def test_a_large_file_that_is_truncated_or_dropped_fills_no_shard() -> None:
    assert len(shards_of([5, 10**12, 5], target=100, over_long="truncate")) == 1
    assert len(shards_of([5, 10**12, 5], target=100, over_long="drop")) == 1


def test_an_input_added_in_the_middle_leaves_most_shards_as_they_were() -> None:
    sizes = [size % 97 + 1 for size in range(0, 200_000, 37)]
    before = shards_of(sizes, target=2000)
    named = [Unit(Input("file", f"{place:04d}", size, 0), size + 1) for place, size in enumerate(sizes)]
    named.insert(1000, Unit(Input("file", "0999-new", 50, 0), 51))

    after = list(plan_shards(named, target=2000))

    paths = {tuple(path for path, _, _ in shard) for shard in before}
    unchanged = [shard for shard in after if tuple(unit.item.path for unit in shard) in paths]
    assert len(before) > 150
    assert len(unchanged) > 0.9 * len(before)


def test_neighbours_of_one_group_stay_together() -> None:
    units = [Unit(Input("grouped", f"{place // 3}.{place}", 40, 0), 40, group=str(place // 3)) for place in range(9)]

    assert [[unit.group for unit in shard] for shard in plan_shards(units, target=100)] == [
        ["0"] * 3, ["1"] * 3, ["2"] * 3,
    ]  # fmt: skip


def test_a_file_of_lines_is_cut_evenly_and_an_empty_one_is_kept() -> None:
    item = Input("jsonl", "a", 250, 0)

    assert [(unit.item.start, unit.item.end, unit.weight) for unit in even_units(item, target=100)] == [
        (0, 100, 100), (100, 200, 100), (200, -1, 50),
    ]  # fmt: skip
    assert [unit.weight for unit in even_units(Input("jsonl", "a", 0, 0), target=100)] == [0]


@pytest.mark.parametrize(
    ("over_long", "taken", "counted"),
    [
        ("split", [(0, 9, True), (0, 10, True), (0, 0, False)], "num_split"),
        ("truncate", [(0, 9, True), (0, 10, False), (0, 0, False)], "num_truncated"),
        ("drop", [(0, 9, True), (0, 0, False), (0, 0, False)], "num_dropped"),
    ],
)
def test_nine_bytes_and_an_end_fit_ten_tokens_and_ten_bytes_do_not(
    over_long: str, taken: list[tuple[int, int, bool]], counted: str
) -> None:
    counts: list[dict[str, int]] = [{}, {}, {}]

    found = [extract(item, options(over_long=over_long)) for item in inputs_of(9, 10, 0)]
    for one, count in zip(found, counts, strict=True):
        count_extracts([one], options(over_long=over_long), count.__setitem__)

    assert [(start, end, closes) for _, start, end, closes in found] == taken
    assert [count.get(counted, 0) for count in counts] == [0, 1, 0]
    assert [count.get("num_empty", 0) for count in counts] == [0, 0, 1]


def test_error_refuses_what_exceeds_one_sequence() -> None:
    strict = options(over_long="error")

    assert [item.path for item in inputs_of(9, 10, 11) if is_too_long(item, strict)] == ["0001", "0002"]
    assert not any(is_too_long(item, options()) for item in inputs_of(9, 10, 11))


@given(sizes=st.lists(st.integers(0, 400), max_size=30), target=st.integers(4, 150), length=st.integers(2, 60))
def test_split_takes_every_byte_of_every_input_exactly_once(sizes: list[int], target: int, length: int) -> None:
    chosen = options(sequence_length=length)
    seen = {item.path: list[tuple[int, int]]() for item in inputs_of(*sizes)}
    counts, closed = dict[str, int](), 0

    def count(name: str, number: int) -> None:
        counts[name] = counts.get(name, 0) + number

    for shard in plan_shards(units_of(sizes, target, sequence_length=length), target=target):
        tokens = 0
        for unit in shard:
            taken = extract(unit.item, chosen)
            count_extracts([taken], chosen, count)
            seen[unit.item.path].append((taken.start, taken.end))
            closed += taken.closes
            tokens += taken.end - taken.start + taken.closes
        assert tokens <= max(target, length) + 1

    for item in inputs_of(*sizes):
        position = 0
        for start, end in seen[item.path]:
            assert start == position
            position = end
        assert position == item.size
    assert counts.get("num_inputs", 0) == len(sizes)
    assert counts.get("num_documents", 0) == closed == sum(size > 0 for size in sizes)


def test_options_that_cannot_work_are_all_named() -> None:
    wrong = options(sequence_length=1, vocab_size=70_000, end_of_document=10)

    problems = check_options(wrong, target_shard_bytes=1 << 30)

    assert [problem.where for problem in problems] == [
        "sequence_length", "end_of_document", "dtype", "target_shard_bytes",
    ]  # fmt: skip
    assert check_options(options(), target_shard_bytes=1 << 20) == []
    assert check_options(SampleOptions(format="mds"), target_shard_bytes=2 << 30) != []


def writer(root: str = "/corpus", **changed: Any) -> EntryWriter:
    return EntryWriter(root=root, read=ReadOptions(), options=options(**changed))


def test_an_entry_is_read_back_as_it_was_written() -> None:
    inputs = [
        Input("file", "a", 9, 5), Input("tar", "b", 9, "tag", 512), Input("jsonl", "c", 9, 5, 0, 4),
        Input("row", "s3://b/é", 9, "", 3, 6, {"key": "k", "fields": [["n", "int", "3"]]}),
    ]  # fmt: skip

    entry = read_line(writer().line(inputs))

    assert entry.inputs == inputs
    assert entry.id == "956bdfbbcacfd0c2acd7f928b073887a"


def test_an_entry_is_named_by_everything_that_decides_its_bytes() -> None:
    (item,) = inputs_of(9)
    lines = {
        writer().line([item]), writer(root="/elsewhere").line([item]), writer(sequence_length=11).line([item]),
        writer().line([item._replace(tag=1)]), writer().line([item._replace(size=10)]), writer().line([item, item]),
        writer().line([item._replace(start=1)]), writer().line([item._replace(kind="lines")]),
    }  # fmt: skip

    assert len({read_line(line).id for line in lines}) == 8
