"""The judge of drills: what it lets pass, and each thing it must not."""

from typing import Any

import pytest

from tests.cluster.drills_judge import Told, assert_trained_once


def begin(term: int, generation: int, attempt: int = 0, **more: Any) -> dict[str, Any]:
    return {"kind": "begin", "term": term, "generation": generation, "attempt": attempt, **more}


def commit(step: int, term: int) -> dict[str, Any]:
    return {"kind": "commit", "checkpoint": f"step-{step}-term-{term}", "step": step, "term": term}


def verified(step: int, term: int) -> dict[str, Any]:
    return {"kind": "verified", "checkpoint": f"step-{step}-term-{term}"}


def steps(generation: int, first: int, last: int, *, attempt: int = 0) -> list[Told]:
    """A step a second, generation 1 from the tenth second."""
    begun = 10.0 * generation
    return [Told(generation, attempt, 0, "step", step, begun + step) for step in range(first, last + 1)]


BEGUN_AGAIN = [begin(1, 0), commit(2, 1), verified(2, 1), commit(4, 1), begin(2, 1, source="step-2-term-1")]
ENDED = [commit(4, 2), commit(6, 2), verified(6, 2)]
TOLD = [*steps(0, 1, 5), *steps(1, 3, 6)]


def test_a_run_that_went_on_from_its_last_verified_checkpoint_passes() -> None:
    assert_trained_once([*BEGUN_AGAIN, *ENDED], TOLD, last=6, ranks=(0,))


@pytest.mark.parametrize(
    ("changes", "told", "what"),
    [
        ([*BEGUN_AGAIN, commit(6, 1), *ENDED], TOLD, "while term 2 was the newest"),
        ([*BEGUN_AGAIN, *ENDED, begin(2, 1)], TOLD, "terms are not"),
        ([begin(1, 1), begin(2, 0), commit(6, 2), verified(6, 2)], [], "an earlier generation began again"),
        ([begin(1, 0), commit(2, 1), verified(2, 1), begin(2, 1), *ENDED], TOLD, "but 2 was verified"),
        ([*BEGUN_AGAIN, commit(2, 2), *ENDED], TOLD, "in a term that began from step 2"),
        ([*BEGUN_AGAIN, *ENDED[:-1]], TOLD, "never verified"),
        ([*BEGUN_AGAIN, *ENDED], [*steps(0, 1, 5), *steps(1, 1, 6)], "term 2, rank 0, from 2"),
        ([*BEGUN_AGAIN, *ENDED], [*TOLD, *steps(1, 6, 6)], "term 2, rank 0, from 2"),
        ([*BEGUN_AGAIN, commit(4, 2), verified(4, 2)], TOLD, "not 6"),
        ([*BEGUN_AGAIN, *ENDED], [*steps(0, 1, 14), *steps(1, 3, 6)], "1.0 s before term 1 ended"),
    ],
)  # fmt: skip
def test_what_must_not_be_is_named(changes: list[dict[str, Any]], told: list[Told], what: str) -> None:
    with pytest.raises(AssertionError, match=what):
        assert_trained_once(changes, told, last=6, ranks=(0,))
