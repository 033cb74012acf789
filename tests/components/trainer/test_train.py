"""Training on one rank, in this process: resume, stop, refusal."""

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from components.trainer.arguments import parse
from components.trainer.endings import TrainingDiverged, Unusable
from components.trainer.place import why_not_cuda
from components.trainer.train import learning_rate, train
from components.trainer.worker import worker_from
from tests.components.trainer.ranks import read_progress

SMALL = ("--layers", "2", "--width", "32", "--heads", "2", "--batch", "4", "--device", "cpu", "--dropout", "0.1")
EVERY = 3


@pytest.fixture(autouse=True)
def _global_state() -> Iterator[None]:
    handler, threads = signal.getsignal(signal.SIGTERM), torch.get_num_threads()
    yield
    signal.signal(signal.SIGTERM, handler)
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(False)


def run(folder: Path, data: Path, *argv: str, **env: Any) -> dict[int, str]:
    """Train in `folder`; loss by step as hexadecimal."""
    folder.mkdir(exist_ok=True)
    given = {
        "ARGOSY_DATA": data, "ARGOSY_CHECKPOINTS": folder / "checkpoints", "ARGOSY_PROGRESS": folder / "progress",
        "ARGOSY_STOP": folder / "stop", "ARGOSY_CHECKPOINT_EVERY_STEPS": EVERY, "ARGOSY_SEED": 7, **env,
    }  # fmt: skip
    train(parse([*SMALL, *argv]), worker_from({name: str(value) for name, value in given.items()}))
    return {line["step"]: line["loss"].hex() for line in read_progress(folder / "progress")}


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory, data: Path) -> tuple[Path, dict[int, str]]:
    folder = tmp_path_factory.mktemp("untouched")
    return folder, run(folder, data, "--steps", "8")


def test_checkpoints_are_written_at_the_interval_and_at_the_last_step(untouched: tuple[Path, dict[int, str]]) -> None:
    folder, losses = untouched
    assert sorted(path.name for path in (folder / "checkpoints").iterdir()) == ["step-3", "step-6", "step-8"]
    files = sorted(path.name for path in (folder / "checkpoints/step-8").iterdir())
    assert files == ["READY", "model.safetensors", "optimizer.safetensors", "state.json"]
    assert sorted(losses) == [1, 2, 3, 4, 5, 6, 7, 8]


def test_a_resumed_run_has_the_same_bits_as_an_untouched_one(
    untouched: tuple[Path, dict[int, str]], data: Path, tmp_path: Path
) -> None:
    folder, losses = untouched
    resumed = run(tmp_path, data, "--steps", "8", ARGOSY_RESUME=folder / "checkpoints/step-3")
    assert resumed == {step: losses[step] for step in (4, 5, 6, 7, 8)}
    for name in ("model.safetensors", "optimizer.safetensors", "state.json"):
        end, resumed_end = folder / "checkpoints/step-8" / name, tmp_path / "checkpoints/step-8" / name
        assert end.read_bytes() == resumed_end.read_bytes()


def test_another_seed_gives_another_run(untouched: tuple[Path, dict[int, str]], data: Path, tmp_path: Path) -> None:
    assert run(tmp_path, data, "--steps", "1", ARGOSY_SEED=8)[1] != untouched[1][1]


def test_a_finished_run_has_nothing_left_to_do(
    untouched: tuple[Path, dict[int, str]], data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, data, "--steps", "8", ARGOSY_RESUME=untouched[0] / "checkpoints/step-8") == {}
    assert "nothing left to do: the checkpoint is at step 8 of 8" in capsys.readouterr().out
    assert not (tmp_path / "checkpoints").exists()


def test_a_longer_training_goes_on_from_the_end_of_a_shorter_one(
    untouched: tuple[Path, dict[int, str]], data: Path, tmp_path: Path
) -> None:
    assert list(run(tmp_path, data, "--steps", "10", ARGOSY_RESUME=untouched[0] / "checkpoints/step-8")) == [9, 10]


def test_progress_lines_carry_what_the_report_needs(untouched: tuple[Path, dict[int, str]]) -> None:
    line = read_progress(untouched[0] / "progress")[-1]
    assert set(line) == {"step", "total_steps", "loss", "tokens", "step_s", "data_s", "compute_s", "comm_s"}
    assert (line["step"], line["total_steps"]) == (8, 8)
    assert 200 < line["tokens"] <= 4 * 63
    assert line["step_s"] == pytest.approx(line["data_s"] + line["compute_s"] + line["comm_s"])


def test_a_stop_file_ends_the_run_with_a_checkpoint_of_that_step(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "stop").touch()
    assert list(run(tmp_path, data, "--steps", "8")) == [1]
    assert (tmp_path / "checkpoints/step-1/READY").exists()
    assert "stopped at step 1 of 8" in capsys.readouterr().out


def test_sigterm_ends_the_run_with_a_checkpoint(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The signal arrives while the first step's line is being written, as good a moment as any.
    progress = tmp_path / "progress"
    os.mkfifo(progress)
    reader = os.fork()
    if reader == 0:
        with progress.open() as lines:
            lines.readline()
            os.kill(os.getppid(), signal.SIGTERM)
            lines.read()
        os._exit(0)
    monkeypatch.setattr("tests.components.trainer.test_train.read_progress", lambda path: [])
    run(tmp_path, data, "--steps", "500")
    os.waitpid(reader, 0)
    (checkpoint,) = (tmp_path / "checkpoints").glob("step-*/READY")
    assert 0 < int(checkpoint.parent.name.removeprefix("step-")) < 500


def test_without_a_folder_for_checkpoints_none_is_written(data: Path, tmp_path: Path) -> None:
    run(tmp_path, data, "--steps", "1", ARGOSY_CHECKPOINTS="")
    assert not (tmp_path / "checkpoints").exists()


def test_a_checkpoint_that_is_ready_is_never_written_again(data: Path, tmp_path: Path) -> None:
    ready = tmp_path / "checkpoints/step-1"
    ready.mkdir(parents=True)
    (ready / "READY").touch()
    run(tmp_path, data, "--steps", "1")
    assert [path.name for path in ready.iterdir()] == ["READY"]


def test_new_data_starts_at_its_own_first_sequence(
    untouched: tuple[Path, dict[int, str]], other_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(tmp_path, other_data, "--steps", "4", ARGOSY_RESUME=untouched[0] / "checkpoints/step-3")
    assert "its first epoch begins here" in capsys.readouterr().out
    assert json.loads((tmp_path / "checkpoints/step-4/state.json").read_text())["cursor"]["position"] == 4


def test_a_loss_that_is_no_number_ends_the_run_before_it_is_saved(data: Path, tmp_path: Path) -> None:
    with pytest.raises(TrainingDiverged, match="lower --lr"):
        run(tmp_path, data, "--steps", "50", "--lr", "1e30", "--warmup", "0", "--clip", "0")
    for folder in (tmp_path / "checkpoints").glob("*"):
        assert all(torch.isfinite(tensor).all() for tensor in load_file(folder / "model.safetensors").values())


def _cut(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def _without_optimizer(folder: Path) -> None:
    (folder / "optimizer.safetensors").unlink()


def _without_state(folder: Path) -> None:
    (folder / "state.json").unlink()


def _other_format(folder: Path) -> None:
    document = json.loads((folder / "state.json").read_text())
    (folder / "state.json").write_text(json.dumps({**document, "format": "argosy-trainer/9"}))


def _missing_tensor(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    del tensors["norm.weight"]
    save_file(tensors, folder / "model.safetensors")


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (_cut, "model.safetensors cannot be read"),
        (_without_optimizer, "optimizer.safetensors cannot be read"),
        (_without_state, "state.json cannot be read as a trainer's state"),
        (_other_format, "is of format 'argosy-trainer/9'"),
        (_missing_tensor, "norm.weight is missing"),
    ],
)
def test_a_damaged_checkpoint_is_refused_with_what_is_wrong(
    damage: Any, told: str, untouched: tuple[Path, dict[int, str]], data: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "step-3"
    shutil.copytree(untouched[0] / "checkpoints/step-3", broken)
    damage(broken)
    with pytest.raises(Unusable, match=told):
        run(tmp_path / "run", data, "--steps", "8", ARGOSY_RESUME=broken)


def test_a_checkpoint_of_another_model_is_refused_with_the_difference(
    untouched: tuple[Path, dict[int, str]], data: Path, tmp_path: Path
) -> None:
    with pytest.raises(Unusable, match="layers 2, now 1"):
        run(tmp_path, data, "--steps", "8", "--layers", "1", ARGOSY_RESUME=untouched[0] / "checkpoints/step-3")


def test_a_checkpoint_of_another_seed_is_refused(
    untouched: tuple[Path, dict[int, str]], data: Path, tmp_path: Path
) -> None:
    with pytest.raises(Unusable, match="with seed 7"):
        run(tmp_path, data, "--steps", "8", ARGOSY_SEED=8, ARGOSY_RESUME=untouched[0] / "checkpoints/step-3")


def test_data_whose_files_are_gone_is_refused(data: Path, tmp_path: Path) -> None:
    lonely = tmp_path / "versions/x/manifest.json"
    lonely.parent.mkdir(parents=True)
    shutil.copy(data, lonely)
    with pytest.raises(Unusable, match="missing"):
        run(tmp_path / "run", lonely, "--steps", "1")


def test_cuda_that_is_not_there_is_refused(data: Path, tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(Unusable, match="--device cuda: 1 of 1 ranks have no GPU"):
        run(tmp_path, data, "--steps", "1", "--device", "cuda")


@pytest.mark.parametrize(
    ("gpus", "told"),
    [
        (["a", "b", "c"], ""),
        (["cpu", "cpu"], "2 of 2 ranks have no GPU"),
        (["a", "cpu"], "1 of 2 ranks have no GPU"),
        (["a", "b", "a"], "ranks 0 and 2 would share one GPU"),
    ],
)
def test_ranks_use_cuda_only_when_each_has_a_gpu_of_its_own(gpus: list[str], told: str) -> None:
    assert why_not_cuda(gpus) == told


def test_the_learning_rate_warms_up_and_ends_at_a_tenth() -> None:
    arguments = parse(["--steps", "100", "--lr", "1.0", "--warmup", "10"])
    rates = [learning_rate(step, arguments) for step in (0, 4, 9, 10, 55, 100)]
    assert rates == pytest.approx([0.1, 0.5, 1.0, 1.0, 0.55, 0.1])


def test_the_loss_falls_on_real_text(data: Path, tmp_path: Path) -> None:
    run(tmp_path, data, "--steps", "40", "--width", "64", "--batch", "16", "--dropout", "0")
    losses = [line["loss"] for line in read_progress(tmp_path / "progress")]
    assert 5.3 < losses[0] < 5.8
    assert sum(losses[-5:]) / 5 < 3.3
