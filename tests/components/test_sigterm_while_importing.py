"""A SIGTERM that comes while a stage is still being imported ends it as a later one does: exit code, record, words."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from components.runtime.early import remember_sigterm
from tests.components.launch.stage import CHECKOUT, REAL_STAGE, Place, a_spec

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the local gang needs Linux")

SLOW_PYDANTIC = """
import os, sys
here = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(here, "reached"), "w"):
    pass
with open(os.path.join(here, "go-on")):
    pass
sys.path.remove(here)
del sys.modules["pydantic"]
import pydantic
"""
"""A package that every stage imports, from a disk that takes its time."""


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    """On PYTHONPATH it makes the import of a stage stop half-way, between two pipes."""
    folder = tmp_path / "slow"
    folder.mkdir()
    (folder / "pydantic.py").write_text(SLOW_PYDANTIC)
    for name in ("reached", "go-on"):
        os.mkfifo(folder / name)
    return folder


def told_half_way(slow: Path, process: "subprocess.Popen[str]") -> None:
    with (slow / "reached").open():
        process.send_signal(signal.SIGTERM)
    go_on = os.open(slow / "go-on", os.O_RDWR)  # for writing alone it would wait for a reader, who may be dead
    try:
        process.wait(timeout=60)
    finally:
        os.close(go_on)


@pytest.mark.parametrize(("is_asked", "code"), [(True, 83), (False, 84)])
@pytest.mark.parametrize("stage", ["shard plan", "preflight", "verify", "retain", "finish"])
def test_a_stage_says_its_last_word(tmp_path: Path, slow: Path, stage: str, is_asked: bool, code: int) -> None:
    environ = {
        **os.environ, "PYTHONPATH": f"{slow}{os.pathsep}{CHECKOUT}", "PYTHONDONTWRITEBYTECODE": "1",
        "ARGOSY_TERMINATION_LOG": str(tmp_path / "words"), "ARGOSY_STOP_FILE": str(tmp_path / "stop.json"),
    }  # fmt: skip
    if is_asked:
        (tmp_path / "stop.json").write_text("{}")
    name, *part = stage.split()
    process = subprocess.Popen(
        [sys.executable, "-m", f"components.{name}", *part, "--spec", "{}", "--storage", f"file://{tmp_path}/storage",
         "--run", "e-bcdfg", "--task", name],
        cwd=tmp_path, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    told_half_way(slow, process)
    output, _ = process.communicate(timeout=60)

    assert process.returncode == code, output
    reason = "StopRequested: a stop was requested" if is_asked else "Interrupted: SIGTERM without a stop request"
    words = (tmp_path / "words").read_text()
    assert words.startswith(reason)
    assert is_asked or words.endswith("; unless the run was stopped, it is tried again")
    record = json.loads((tmp_path / f"storage/runs/e-bcdfg/stages/{name}/000.json").read_text())
    assert record["exit_code"] == code


@pytest.mark.parametrize(("is_asked", "code"), [(True, 83), (False, 84)])
def test_the_launcher_says_its_last_word(tmp_path: Path, slow: Path, is_asked: bool, code: int) -> None:
    place = Place(tmp_path)
    if is_asked:
        place.stop_file.write_text("{}")
    try:
        stage = place.start(a_spec(), stage=REAL_STAGE, PYTHONPATH=f"{slow}{os.pathsep}{CHECKOUT}")
        told_half_way(slow, stage.process)
        assert stage.wait() == code
        reason = "StopRequested: a stop was requested" if is_asked else "Interrupted: SIGTERM without a stop request"
        assert stage.last_words.startswith(reason)
        assert place.processes() == []
    finally:
        place.close()


def test_what_a_person_started_still_ends_at_once() -> None:
    before = signal.getsignal(signal.SIGTERM)
    remember_sigterm(["file:///storage", "--keep-last", "3"])
    assert signal.getsignal(signal.SIGTERM) is before
