"""Where shards begin and end, and what each takes of its inputs."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.contracts.dataset import PackingOptions, PlannedInput, PlannedShard
from components.dataset.planning import check_options, extracts, plan_shards, too_long


def inputs_of(*sizes: int) -> list[PlannedInput]:
    return [PlannedInput(path=f"{place:04d}", size_bytes=size, mtime_ns=0) for place, size in enumerate(sizes)]


def options(**changed: Any) -> PackingOptions:
    return PackingOptions(**{"sequence_length": 10, "over_long": "split", **changed})


def shards_of(sizes: list[int], target: int, **changed: Any) -> list[tuple[int, ...]]:
    planned = plan_shards(inputs_of(*sizes), options(**changed), target_shard_bytes=target)
    return [tuple(value for value in shard.as_json().values()) for shard in planned]


def test_a_shard_ends_before_it_would_exceed_the_target() -> None:
    assert shards_of([40, 40, 40, 90, 5], target=100) == [(0, 2, 0), (2, 1, 0), (3, 2, 0)]


def test_empty_files_belong_to_a_shard_and_open_none() -> None:
    assert shards_of([0, 99, 0, 0, 99, 0], target=100) == [(0, 4, 0), (4, 2, 0)]


def test_a_large_file_is_cut_at_multiples_of_the_sequence_length() -> None:
    assert list(plan_shards(inputs_of(5, 250, 5), options(), target_shard_bytes=105)) == [
        PlannedShard(first_input=0, num_inputs=1),
        PlannedShard(first_input=1, num_inputs=1, start_byte=0, end_byte=100),
        PlannedShard(first_input=1, num_inputs=1, start_byte=100, end_byte=200),
        PlannedShard(first_input=1, num_inputs=1, start_byte=200),
        PlannedShard(first_input=2, num_inputs=1),
    ]


def test_a_large_file_that_is_truncated_or_dropped_fills_no_shard() -> None:
    assert shards_of([5, 10**12, 5], target=100, over_long="truncate") == [(0, 3, 0)]
    assert shards_of([5, 10**12, 5], target=100, over_long="drop") == [(0, 3, 0)]


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
    inputs, chosen = inputs_of(9, 10, 0), options(over_long=over_long)
    (shard,) = plan_shards(inputs, chosen, target_shard_bytes=100)

    found = list(extracts(inputs, shard, chosen))

    assert [(extract.start, extract.end, extract.ends_document) for extract in found] == taken
    assert [extract.counts.get(counted, 0) for extract in found] == [0, 1, 0]
    assert [extract.counts.get("num_empty", 0) for extract in found] == [0, 0, 1]


def test_error_refuses_what_exceeds_one_sequence() -> None:
    assert [planned.path for planned in too_long(inputs_of(9, 10, 11), options(over_long="error"))] == ["0001", "0002"]
    assert too_long(inputs_of(9, 10, 11), options()) == []


@given(sizes=st.lists(st.integers(0, 400), max_size=30), target=st.integers(1, 150), length=st.integers(2, 60))
def test_split_takes_every_byte_of_every_input_exactly_once(sizes: list[int], target: int, length: int) -> None:
    inputs, chosen = inputs_of(*sizes), options(sequence_length=length)
    seen = {planned.path: list[tuple[int, int]]() for planned in inputs}
    counted, ended = 0, 0
    for shard in plan_shards(inputs, chosen, target_shard_bytes=target):
        tokens = 0
        for extract in extracts(inputs, shard, chosen):
            seen[extract.planned.path].append((extract.start, extract.end))
            counted += extract.counts["num_inputs"]
            ended += extract.ends_document
            tokens += extract.end - extract.start + extract.ends_document
        assert tokens <= max(target, length) + 1

    for planned in inputs:
        position = 0
        for start, end in seen[planned.path]:
            assert start == position
            position = end
        assert position == planned.size_bytes
    assert counted == len(sizes)
    assert ended == sum(size > 0 for size in sizes)


def test_options_that_cannot_work_are_all_named() -> None:
    wrong = options(sequence_length=1, vocab_size=70_000, end_of_document=10)

    problems = check_options(wrong, target_shard_bytes=1 << 30)

    assert [problem.where for problem in problems] == [
        "sequence_length", "end_of_document", "dtype", "target_shard_bytes",
    ]  # fmt: skip
    assert check_options(options(), target_shard_bytes=1 << 20) == []
