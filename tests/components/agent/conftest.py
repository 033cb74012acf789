"""Gangs that leave nothing behind."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from components.runtime.processes import become_subreaper
from tests.components.agent.gang import Gang


@pytest.fixture
def new_gang(tmp_path: Path) -> Iterator[Callable[..., Gang]]:
    """Makes gangs below one storage; every process of theirs is ended with the test."""
    become_subreaper()
    gangs: list[Gang] = []

    def make(command: list[str], *, folder: Path = tmp_path, **changes: Any) -> Gang:
        gangs.append(Gang(folder, command, **changes))
        return gangs[-1]

    yield make
    for gang in gangs:
        gang.close()
