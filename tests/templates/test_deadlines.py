"""Deadline arithmetic, in figures worked out by hand."""

from templates.deadlines import backoff_seconds, finish_timeout, path_seconds, stage_seconds


def test_backoffs_grow_threefold_up_to_a_minute() -> None:
    assert [backoff_seconds(retries) for retries in range(6)] == [0, 3, 12, 39, 99, 159]


def test_a_stage_may_use_every_attempt_and_wait_every_backoff() -> None:
    assert stage_seconds(100, 0) == 100
    assert stage_seconds(100, 3) == 439


def test_a_path_is_the_sum_of_its_leaves() -> None:
    assert path_seconds(1, 2.5, 3) == 6.5


def test_the_exit_handler_outlives_the_stop_of_the_gang() -> None:
    assert finish_timeout(60) == 660
