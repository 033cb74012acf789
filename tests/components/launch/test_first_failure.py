"""A failure in one sentence: the rank that failed first, its last line, and who else ended."""

from components.contracts.gang import Failure, FailureKind
from components.launch.first_failure import describe_failure


def test_the_ranks_that_ended_beside_the_first_are_named() -> None:
    failure = Failure(
        kind=FailureKind.RANK_EXIT, node_rank=1, rank=1, exit_code=3, last_lines=("told to fail",),
        message="rank 1 exited with code 3; rank 0 exited with code 1 0.004 s later",
        also="rank 0 exited with code 1 0.004 s later", at="2026-11-30T12:00:00.000Z",
    )  # fmt: skip
    assert describe_failure(failure) == (
        'rank 1 on node 1 exited with code 3 (last line: "told to fail"); rank 0 exited with code 1 0.004 s later'
    )


def test_a_sentence_that_names_them_already_names_them_once() -> None:
    failure = Failure(
        kind=FailureKind.START_FAILED, node_rank=0, rank=0, also="rank 1 could not start 0.004 s later",
        message="cannot start 'trian'; rank 1 could not start 0.004 s later", at="2026-11-30T12:00:00.000Z",
    )  # fmt: skip
    assert describe_failure(failure) == "cannot start 'trian'; rank 1 could not start 0.004 s later"
