"""Ctrl-C while a real gang trains: once it may checkpoint, twice everything dies; neither leaves anything behind."""

import json
from pathlib import Path

import pytest

from tests.pipelines.cli.conftest import argosy, processes_of, wait_until
from tests.pipelines.cli.terminal import Terminal, a_terminal

pytestmark = pytest.mark.e2e

PROGRAM = "[python, -m, components.trainer, --steps, '100000', --layers, '1', --width, '32', --batch, '4']"
SUBMIT = (
    "submit", "--recipe", "smoke", "--set", f"launch.command={PROGRAM}", "--set", "checkpoint.every_steps=1000000",
    "--set", "launch.limits.stop=5m",  # on a busy machine the last checkpoint's verification takes its time
)  # fmt: skip


def wait_until_it_trains(terminal: Terminal) -> None:
    terminal.wait_for("loss", seconds=240)


def unfinished_writes(home: Path) -> list[Path]:
    return [path for path in home.rglob(".*") if path.name.startswith((".tmp-", ".new-", ".stop-"))]


def test_once_the_ranks_checkpoint_and_the_run_can_go_on(home: Path):
    with a_terminal(*SUBMIT) as terminal:
        wait_until_it_trains(terminal)
        terminal.press_ctrl_c()
        code = terminal.wait(seconds=300)

    value = json.loads(argosy("status", "-o", "json").stdout)
    launch = next(stage for stage in value["stages"] if stage["task"] == "launch")
    (checkpoint,) = value["checkpoints"]
    assert (code, value["state"], launch["state"]) == (83, "Stopped", "Stopped")
    assert (checkpoint["status"], checkpoint["step"]) == ("verified", value["step"])
    assert "claim" not in value
    assert processes_of(home) == []
    assert unfinished_writes(home) == []


def test_twice_everything_is_gone_at_once(home: Path):
    with a_terminal(*SUBMIT) as terminal:
        wait_until_it_trains(terminal)
        terminal.press_ctrl_c()
        terminal.wait_for("Ctrl-C again")
        terminal.press_ctrl_c()
        code = terminal.wait(seconds=60)

    assert code == 83
    wait_until(lambda: processes_of(home) == [])
    assert "killed the run" in argosy("why").stdout
