"""Several real ranks: the same bits after a kill, all stopping at one step, torchrun's variables alone."""

import signal
import time
from pathlib import Path

import pytest

from tests.components.trainer.ranks import ROOT, start_ranks, train_forked

pytestmark = pytest.mark.e2e

# 0.8 M parameters: more than DDP's first bucket holds, so it regroups its buckets after the first step.
SETTINGS = ("--layers", "4", "--width", "128", "--batch", "2", "--device", "cpu")
TRAINER = ("-m", "components.trainer", *SETTINGS)


def test_four_ranks_resumed_repeat_an_untouched_run_bit_for_bit(data: Path, tmp_path: Path) -> None:
    env = {"ARGOSY_DATA": str(data), "ARGOSY_CHECKPOINT_EVERY_STEPS": "4", "ARGOSY_SEED": "3"}
    argv = (*SETTINGS, "--steps", "8", "--dropout", "0.1")
    untouched = train_forked(4, tmp_path / "untouched", argv, env=env)
    resume = {**env, "ARGOSY_RESUME": str(untouched.checkpoints / "step-4")}
    resumed = train_forked(4, tmp_path / "resumed", argv, env=resume)

    expected = untouched.losses()
    assert list(expected) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert resumed.losses() == {step: expected[step] for step in (5, 6, 7, 8)}
    # A loss shows a difference late; the tensors show it in the first bit.
    for name in ("model.safetensors", "optimizer.safetensors", "state.json"):
        end = (untouched.checkpoints / "step-8" / name).read_bytes()
        assert (resumed.checkpoints / "step-8" / name).read_bytes() == end
    assert [line["loss"] for line in untouched.progress(3)] == [line["loss"] for line in untouched.progress(0)]


def test_a_signal_to_one_rank_stops_all_at_the_same_step(data: Path, tmp_path: Path) -> None:
    env = {"ARGOSY_DATA": str(data), "ARGOSY_CHECKPOINT_EVERY_STEPS": "100000"}
    ranks = start_ranks(2, tmp_path, (*TRAINER, "--steps", "100000"), env=env)
    _wait_for(tmp_path / "progress-1")
    ranks.processes[1].send_signal(signal.SIGTERM)
    assert ranks.wait() == [0, 0], ranks.output()
    last = ranks.progress(0)[-1]["step"]
    assert ranks.progress(1)[-1]["step"] == last
    assert (ranks.checkpoints / f"step-{last}/READY").exists()
    assert f"stopped at step {last} of 100000" in ranks.output()


def test_torchruns_variables_alone_are_enough(data: Path, tmp_path: Path) -> None:
    argv = (*TRAINER, "--steps", "2")
    ranks = start_ranks(2, tmp_path, argv, env={"ARGOSY_DATA": str(data)}, argosy=False)
    assert ranks.wait() == [0, 0], ranks.output()
    assert "finished 2 steps" in ranks.output()
    assert ranks.output(1) == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["output-0", "output-1"]


def test_the_example_of_a_torchrun_script_needs_nothing_of_ours(tmp_path: Path) -> None:
    script = str(ROOT / "tests/e2e/programs/ddp_tutorial.py")
    ranks = start_ranks(2, tmp_path, (script,), env={}, argosy=False)
    # A script that ends the usual way is now and then aborted by PyTorch itself, after its last line, while the
    # interpreter is torn down with a gloo thread still running.
    assert set(ranks.wait()) <= {0, -signal.SIGABRT}, ranks.output()
    for rank in (0, 1):
        assert f"Finished running basic DDP example on rank {rank}." in ranks.output(rank)


def _wait_for(path: Path, timeout: float = 90) -> None:
    end = time.monotonic() + timeout
    while not path.exists():
        assert time.monotonic() < end, f"{path} did not appear"
        time.sleep(0.02)
