"""The local engine does with each case what Argo does with it."""

from pathlib import Path

import pytest

from tests.conformance.case import Case, differences, read_cases
from tests.conformance.on_argo import has_crashed
from tests.conformance.on_this_machine import run_here

CASES = read_cases()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_local_engine_does_what_argo_does(case: Case, tmp_path: Path) -> None:
    assert differences(case.expected, run_here(case, tmp_path)) == [], case.about


def test_the_cases_cover_what_argo_decides() -> None:
    text = " ".join(str(case.data) for case in CASES)
    words = (
        ".Failed .Errored .Skipped .Omitted .AnySucceeded .AllFailed withSequence OnError OnFailure Always expression "
        "backoff activeDeadlineSeconds onExit failFast workflow.failures workflow.status workflow.parameters"
    )
    for word in words.split():
        assert word in text
    assert len(CASES) >= 15


def test_an_executor_that_crashed_is_told_from_one_that_found_no_output() -> None:
    assert has_crashed({"nodes": {"a": {}, "b": {"message": "wait: Error (exit code 2)"}}})
    assert not has_crashed({"nodes": {"a": {"message": "wait: Error (exit code 64): no such file"}}})
    assert not has_crashed({})
