"""Level `load`: torch itself, in a process of its own, with limits; what that process does is never ours."""

import json
import os
import shutil
import sys
import time
from pathlib import Path

import pytest

from components.errors import EnvironmentUnfit
from components.integrity.fault import Fault
from components.integrity.place import find_place
from components.verify.load import Loaded, load_files
from components.verify.standalone import main
from tests.components.integrity.looking import SOUND


def load(folder: Path, *, python: str = sys.executable, **limits: float) -> Loaded:
    place = find_place(str(folder))
    return load_files(place.store, place.folder, place.files, python=python, **limits)  # type: ignore[arg-type]


def a_python(folder: Path, text: str) -> str:
    """A training environment's interpreter that does what `text` says."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.e2e
def test_every_format_is_loaded_by_torch(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint-300"
    shutil.copytree(SOUND / "hf-trainer" / "checkpoint-300", folder)
    shutil.copytree(SOUND / "torchtitan" / "step-300", folder / "sharded")
    shutil.copy(SOUND / "torch" / "model.pt", folder / "with-classes.pt")
    (folder / "broken.pt").write_bytes(b"PK\x03\x04nothing")

    loaded = load(folder)

    assert loaded.num_tensors == 3 + 2 + 3  # the shards; optimizer and random state; the distributed one
    assert [(fault.file, fault.problem) for fault in loaded.faults] == [("broken.pt", "cannot be loaded")]
    assert len(loaded.notes) == 1
    assert loaded.notes[0].startswith("with-classes.pt: not loaded, ")


@pytest.mark.e2e
def test_the_level_is_asked_for_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(SOUND / "torchtitan" / "step-300"), "--level", "load", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["level"] == "load"


def test_without_torch_it_says_so(tmp_path: Path) -> None:
    python = a_python(tmp_path, 'echo "No module named torch" >&2; exit 3')

    with pytest.raises(
        EnvironmentUnfit, match=r"TorchMissing: verify\.level is load, but .*python has no torch: No mod"
    ):
        load(SOUND / "torch", python=python)


def test_a_load_that_hangs_is_ended_with_all_it_started(tmp_path: Path) -> None:
    python = a_python(tmp_path, f"sleep 60 & echo $! > {tmp_path}/pid; wait")
    started = time.monotonic()

    with pytest.raises(EnvironmentUnfit, match=r"LoadDeadline: loading 3\.\d KiB took more than 1 s"):
        load(SOUND / "torch", python=python, deadline_seconds=1.0)

    assert time.monotonic() - started < 50  # the program would take 60 s
    pid = int((tmp_path / "pid").read_text())
    assert not Path(f"/proc/{pid}").exists() or " Z " in Path(f"/proc/{pid}/stat").read_text()


def test_too_little_memory_is_not_the_checkpoint_s_fault(tmp_path: Path) -> None:
    for code in ("exit 4", "kill -9 $$"):
        with pytest.raises(EnvironmentUnfit, match="LoadOutOfMemory"):
            load(SOUND / "torch", python=a_python(tmp_path, code), memory_bytes=1 << 20)


def test_a_load_that_crashes_is_a_finding(tmp_path: Path) -> None:
    loaded = load(SOUND / "torch", python=a_python(tmp_path, 'echo "it hurts" >&2; kill -11 $$'))

    assert loaded.faults == (
        Fault("model.pt", "cannot be loaded: the loading process died of signal 11", actual="it hurts"),
    )


def test_the_child_sees_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden")
    seen = tmp_path / "environment"
    answer = json.dumps({"failed": {}, "skipped": {}, "num_tensors": 0})

    load(SOUND / "torch", python=a_python(tmp_path, f"env > {seen}; echo '{answer}'"))

    assert "hidden" not in seen.read_text()
    assert f"HOME={os.environ.get('HOME')}\n" not in seen.read_text()
