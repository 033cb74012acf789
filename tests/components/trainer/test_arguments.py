"""Command line and environment: refused before torch is even imported, every fault at once."""

import subprocess
import sys
from pathlib import Path

import pytest

from components.trainer.arguments import parse
from components.trainer.endings import Unusable
from components.trainer.worker import worker_from


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        ([], "--steps"),
        (["--steps", "0"], "0 is out of range: at least 1"),
        (["--steps", "ten"], "'ten' is not an integer"),
        (["--steps", "5", "--lr", "fast"], "'fast' is not a number"),
        (["--steps", "5", "--lr", "0"], "--lr 0 would learn nothing"),
        (["--steps", "5", "--lr", "nan"], "nan is out of range"),
        (["--steps", "5", "--dropout", "1"], "choose a share below 1"),
        (["--steps", "5", "--device", "tpu"], "tpu"),
        (["--steps", "5", "--widht", "64"], "--widht"),
        (["--steps", "5", "--width", "100", "--heads", "3"], "--width 100 is not a multiple of --heads 3"),
    ],
)
def test_a_wrong_argument_is_named_and_exits_with_78(
    argv: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ending:
        parse(argv)
    assert ending.value.code == 78
    assert told in capsys.readouterr().err


def test_several_arguments_that_do_not_fit_are_told_together(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--steps", "5", "--width", "100", "--heads", "3", "--dropout", "2"])
    told = capsys.readouterr().err
    assert "--heads 3" in told
    assert "--dropout 2" in told


def test_defaults_are_the_small_transformer() -> None:
    arguments = parse(["--steps", "5"])
    assert (arguments.layers, arguments.width, arguments.heads, arguments.device) == (4, 128, 4, "auto")


def test_without_any_variable_but_the_data_a_process_is_alone_and_keeps_nothing(data: Path) -> None:
    worker = worker_from({"ARGOSY_DATA": str(data)})
    assert (worker.rank, worker.world_size, worker.local_rank) == (0, 1, 0)
    assert (worker.resume, worker.checkpoints, worker.progress, worker.stop) == (None, None, None, None)


def test_every_variable_that_is_wrong_is_told(tmp_path: Path) -> None:
    env = {"RANK": "4", "WORLD_SIZE": "4", "LOCAL_RANK": "x", "ARGOSY_DATA": "/nowhere/manifest.json",
           "ARGOSY_RESUME": str(tmp_path / "gone")}  # fmt: skip
    with pytest.raises(Unusable) as refusal:
        worker_from(env)
    for told in ("RANK=4 is not below WORLD_SIZE=4", "LOCAL_RANK=x", "/nowhere/manifest.json does not exist", "gone"):
        assert told in str(refusal.value)


def test_an_empty_resume_variable_means_from_the_start(data: Path) -> None:
    assert worker_from({"ARGOSY_DATA": str(data), "ARGOSY_RESUME": ""}).resume is None


def test_ranks_below_one_guard_process_keep_their_progress_apart(data: Path) -> None:
    env = {"ARGOSY_DATA": str(data), "ARGOSY_PROGRESS": "/p/progress", "WORLD_SIZE": "4", "RANK": "3",
           "LOCAL_WORLD_SIZE": "2", "LOCAL_RANK": "1"}  # fmt: skip
    assert worker_from(env).progress == Path("/p/progress")
    assert worker_from({**env, "PET_NNODES": "2"}).progress == Path("/p/progress.3")


def test_missing_data_is_told_without_importing_torch() -> None:
    code = "import sys; sys.argv = ['x', '--steps', '1']\n" \
           "from components.trainer.__main__ import main\n" \
           "code = main(); assert 'torch' not in sys.modules; sys.exit(code)"  # fmt: skip
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parents[3], env={"PATH": "/usr/bin"}, capture_output=True,
        text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ended.returncode == 78
    assert "ARGOSY_DATA is not set" in ended.stderr
