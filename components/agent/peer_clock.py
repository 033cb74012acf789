"""How far another node's clock is from this one's, as their beats tell."""

from collections import deque

_NUM_ROUNDS = 8
"""Beats come every second: a clock that is set meanwhile is believed again after so many seconds."""


class PeerClock:
    """Learns from questions that the peer answers at once with its own time. Unix times, in seconds."""

    def __init__(self) -> None:
        self._rounds: deque[tuple[float, float]] = deque(maxlen=_NUM_ROUNDS)
        """Of each question: half of the time it took, and how far the peer's clock is ahead, right to that much."""

    def on_answer(self, *, asked_at: float, answered_at: float, now: float) -> None:
        """`asked_at` and `now` by our clock, `answered_at` by the peer's."""
        if now >= asked_at:  # else our own clock was set back meanwhile
            half = (now - asked_at) / 2
            self._rounds.append((half, answered_at - asked_at - half))

    def here(self, at: float) -> tuple[float, float]:
        """The peer's time `at` by our clock, and to how many seconds that is right; infinite when nothing is known."""
        if not self._rounds:
            return at, float("inf")
        within, ahead = min(self._rounds)
        return at - ahead, within
