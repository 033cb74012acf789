"""What the host lacks is told with what it has, and a cluster that is there asks for less."""

from pathlib import Path

import pytest

from infra.devcluster import host


def said_of_disk() -> list[str]:
    return [str(problem) for problem in host.missing() if problem.where == "/var/lib"]


def test_a_cluster_that_is_there_needs_no_room_for_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = tmp_path / "cluster.json"
    monkeypatch.setattr(host, "RECORD", record)
    monkeypatch.setattr(host, "NEEDED_BYTES", 1 << 62)
    assert len(said_of_disk()) == 1
    record.touch()
    assert said_of_disk() == []


def test_a_full_disk_is_told_with_both_amounts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "RECORD", tmp_path / "none")
    monkeypatch.setattr(host, "NEEDED_BYTES", 1 << 62)
    (text,) = said_of_disk()
    assert text.startswith("/var/lib: has ")
    assert text.endswith(" GiB free; 4294967296 GiB are needed")
