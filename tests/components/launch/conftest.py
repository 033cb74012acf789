"""A place for one run, cleared of its processes afterwards."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.components.launch.stage import Place


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    place.close()
