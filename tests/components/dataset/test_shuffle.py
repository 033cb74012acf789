"""The permutation is one, is pinned for ever, and is not the order on disk."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.dataset.shuffle import shuffled


@given(n=st.integers(1, 3000), seed=st.integers(-(2**70), 2**70), epoch=st.integers(0, 50))
def test_every_place_is_taken_exactly_once(n: int, seed: int, epoch: int) -> None:
    order = shuffled(np.arange(n), n, seed=seed, epoch=epoch)

    assert sorted(order.tolist()) == list(range(n))


def test_the_order_is_pinned_so_that_old_checkpoints_resume_on_the_same_samples() -> None:
    assert shuffled(np.arange(10), 10, seed=1234, epoch=0).tolist() == PINNED_0
    assert shuffled(np.arange(10), 10, seed=1234, epoch=1).tolist() == PINNED_1
    assert shuffled(np.arange(3), 10**12, seed=7, epoch=0).tolist() == PINNED_LARGE


PINNED_0 = [4, 6, 1, 3, 2, 8, 0, 7, 9, 5]
PINNED_1 = [8, 1, 3, 2, 9, 0, 5, 6, 7, 4]
PINNED_LARGE = [733141761863, 803344286327, 627655169269]


def test_single_places_agree_with_the_whole_order() -> None:
    whole = shuffled(np.arange(1000), 1000, seed=5, epoch=2)

    for place in (0, 1, 499, 999):
        assert shuffled(np.array([place]), 1000, seed=5, epoch=2)[0] == whole[place]


@pytest.mark.parametrize("n", [1000, 4096, 100_000])
def test_neighbours_are_scattered_and_epochs_and_seeds_differ(n: int) -> None:
    orders = [shuffled(np.arange(n), n, seed=seed, epoch=epoch) for seed, epoch in ((1, 0), (1, 1), (2, 0))]

    for order in orders:
        # A random permutation moves a place by n/3 on average and keeps about one place fixed.
        assert abs(np.abs(order - np.arange(n)).mean() / n - 1 / 3) < 0.03
        assert abs(np.corrcoef(order[:-1], order[1:])[0, 1]) < 0.1
        assert (order == np.arange(n)).sum() < 8
    assert (orders[0] == orders[1]).mean() < 0.01
    assert (orders[0] == orders[2]).mean() < 0.01
