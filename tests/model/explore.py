"""Breadth-first search through every state of a model; the first counterexample found is a shortest one."""

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

State = TypeVar("State", bound=Hashable)


class TooManyStates(Exception):
    """The bounds of the model are too wide to be searched whole."""


@dataclass(frozen=True)
class Result(Generic[State]):
    """How far the search came, and what it found."""

    num_states: int
    violation: str
    """Empty when no reachable state violates anything."""
    steps: tuple[str, ...] = ()


def explore(
    start: State,
    successors: Callable[[State], Iterable[tuple[str, State]]],
    violation: Callable[[State], str],
    *,
    max_states: int,
) -> Result[State]:
    """Look at every state that can be reached, or at those up to the first violation."""
    came_from: dict[State, tuple[State, str] | None] = {start: None}
    queue = deque([start])
    while queue:
        state = queue.popleft()
        for step, after in successors(state):
            if after in came_from:
                continue
            came_from[after] = (state, step)
            wrong = violation(after)
            if wrong:
                return Result(len(came_from), wrong, _path(came_from, after))
            if len(came_from) > max_states:
                raise TooManyStates(f"more than {max_states} states")
            queue.append(after)
    return Result(len(came_from), "")


def _path(came_from: dict[State, tuple[State, str] | None], state: State) -> tuple[str, ...]:
    steps: list[str] = []
    while (origin := came_from[state]) is not None:
        state, step = origin
        steps.append(step)
    return tuple(reversed(steps))
