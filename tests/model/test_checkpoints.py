"""Every order of every step of the checkpoint protocol, within bounds; and what each part of it is needed for."""

import pytest

from tests.model.bounds import SMALL
from tests.model.checkpoints import LOST, Model
from tests.model.explore import TooManyStates, explore


@pytest.mark.parametrize("name", SMALL)
def test_no_order_of_steps_violates_an_invariant(name: str) -> None:
    model = SMALL[name]

    result = explore(model.start(), model.steps, model.violation, max_states=500_000)

    assert result.violation == "", "\n".join(result.steps)
    assert result.num_states > 5000  # the bounds leave something to search


@pytest.mark.parametrize(
    ("part", "bounds", "expected"),
    [
        ("fencing", {}, "I4: a fenced gang committed"),
        ("compare-and-append", {}, "I4: a fenced gang committed"),
        ("a look at the source", {"num_damages": 1}, "I2: "),
        ("verification", {"num_poisons": 2}, "I1: "),
        ("the source in use", {}, "I5: "),
        ("the running term's own", {}, "I7: "),
        ("a look at the survivors", {"num_damages": 2, "damages": (LOST,), "num_starts": 0}, "I1: "),
    ],
)
def test_without_one_part_the_search_finds_how_it_fails(part: str, bounds: dict[str, object], expected: str) -> None:
    model = Model(without=frozenset({part}), **bounds)  # type: ignore[arg-type]

    result = explore(model.start(), model.steps, model.violation, max_states=500_000)

    assert result.violation.startswith(expected), result


def test_one_copy_is_not_enough_once_anything_can_be_damaged() -> None:
    model = Model(keep_last=1, num_damages=1)

    result = explore(model.start(), model.steps, model.violation, max_states=500_000)

    assert result.violation == "I1: one was verified, and none is verified and intact"
    assert result.steps[-2:] in (("RETIRE (0,)", "1 is flipped"), ("a cleaner wants to retire (0,)", "RETIRE (0,)"))


def test_bounds_that_cannot_be_searched_whole_are_refused() -> None:
    model = Model()

    with pytest.raises(TooManyStates):
        explore(model.start(), model.steps, model.violation, max_states=100)
