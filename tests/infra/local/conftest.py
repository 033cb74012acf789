"""Fixtures for tests of the local engine."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.infra.local.engine_process import EngineProcess


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Callable[..., EngineProcess]]:
    """Makes runs; kills the engines that are left."""
    made: list[EngineProcess] = []

    def make(manifest: Mapping[str, Any], **options: Any) -> EngineProcess:
        made.append(EngineProcess(tmp_path / "home", manifest, **options))
        return made[-1]

    yield make
    for engine in made:
        engine.close()
