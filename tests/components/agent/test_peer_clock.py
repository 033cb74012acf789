"""Another node's clock, learnt from its answers."""

from math import inf

import pytest

from components.agent.peer_clock import PeerClock


def test_a_clock_that_was_never_compared_tells_nothing() -> None:
    assert PeerClock().here(1000.0) == (1000.0, inf)


def test_the_quickest_answer_tells_most() -> None:
    clock = PeerClock()  # the peer is 60 s ahead
    clock.on_answer(asked_at=100.0, answered_at=160.9, now=101.0)
    clock.on_answer(asked_at=102.0, answered_at=162.01, now=102.02)
    clock.on_answer(asked_at=103.0, answered_at=163.1, now=104.0)
    assert clock.here(170.0) == pytest.approx((110.0, 0.01))


def test_a_clock_that_was_set_is_believed_again() -> None:
    clock = PeerClock()
    clock.on_answer(asked_at=100.0, answered_at=160.0, now=100.0)
    for second in range(8):
        clock.on_answer(asked_at=200.0 + second, answered_at=200.5 + second, now=201.0 + second)
    assert clock.here(300.0) == pytest.approx((300.0, 0.5))


def test_an_answer_from_before_our_own_clock_was_set_back_is_nothing() -> None:
    clock = PeerClock()
    clock.on_answer(asked_at=100.0, answered_at=100.0, now=40.0)
    assert clock.here(50.0) == (50.0, inf)
