"""Faults of a description say where they stand and what to do, also where little was written."""

from pathlib import Path

import pytest

from components.errors import BadInput
from pipelines.config import load_config


def faults(*overrides: str, path: Path | None = None) -> list[str]:
    with pytest.raises(BadInput) as caught:
        load_config(path, overrides=overrides)
    return [str(problem) for problem in caught.value.problems]


def test_every_missing_section_says_what_belongs_into_it(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("experiment: x\n")

    found = faults(path=path)

    assert [fault.partition(": ")[0] for fault in found] == [f"{path}:1 {name}" for name in _SECTIONS]
    assert "; add the section shard, with " in found[0]
    assert ", corpus, " in found[0]
    assert not any(fault.endswith((": ", ":")) for fault in found)


def test_an_empty_file_is_named_with_its_first_line(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.touch()

    assert all(fault.startswith(f"{path}:1 ") for fault in faults(path=path))


def test_a_section_that_only_an_override_made_is_the_overrides_fault() -> None:
    (fault,) = faults("bogus.key=2")

    assert fault.startswith("--set bogus.key bogus: unknown key; ")


_SECTIONS = ("shard", "launch", "checkpoint")
