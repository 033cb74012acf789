"""How long a store is asked again: exponential pauses with full jitter, longer when it says so, bounded in all."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Patience:
    """When to give up on a request. Seconds; clock, pause and chance can be replaced."""

    total_seconds: float = 60.0
    """No try begins later than this after the first one, but for `min_tries`."""
    min_tries: int = 3
    """So many tries even when one takes longer than all: a file of gigabytes deserves a second chance."""
    first_pause_seconds: float = 0.1
    max_pause_seconds: float = 8.0
    slow_down_seconds: float = 1.0
    """First pause after an answer that asks to be spared."""
    clock: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep
    chance: Callable[[], float] = random.random

    def begin(self) -> "Tries":
        return Tries(self)


FULL = Patience()
"""For a store that answered so far."""

BRIEF = Patience(total_seconds=5.0, min_tries=1)
"""For a store that was given up on a moment ago, and for people who wait at a terminal."""


@dataclass
class Tries:
    """The tries of one request."""

    patience: Patience
    num_failed: int = 0
    began_at: float = field(init=False)

    def __post_init__(self) -> None:
        self.began_at = self.patience.clock()

    def wait(self, *, slow_down: bool = False, at_least_seconds: float = 0.0) -> bool:
        """Pause before the next try; False when there should be none. `at_least_seconds`: what the server asked for."""
        patience = self.patience
        pause = self._pause(slow_down=slow_down, at_least_seconds=at_least_seconds)
        elapsed = patience.clock() - self.began_at
        self.num_failed += 1
        if elapsed + pause > patience.total_seconds and self.num_failed >= patience.min_tries:
            return False
        patience.pause(pause)
        return True

    def _pause(self, *, slow_down: bool, at_least_seconds: float) -> float:
        patience = self.patience
        first = patience.slow_down_seconds if slow_down else patience.first_pause_seconds
        highest = min(patience.max_pause_seconds, first * 2.0**self.num_failed)
        pause = highest * patience.chance()
        if slow_down:
            pause = highest / 2 + pause / 2  # asked to be spared: never at once, however the dice fall
        return max(pause, min(at_least_seconds, patience.total_seconds / 2))
