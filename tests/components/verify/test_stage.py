"""The verify stage: a verdict in the ledger, the exit code that says it, and the same again the second time."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import pytest

from components.contracts.checkpoint import VerifyLevel
from components.errors import ArgosyError
from components.integrity.compare import Previous
from components.integrity.verify import types_of
from components.ledger.ledger import Ledger
from components.ledger.records import Retire, Retired
from components.runtime.log import Log
from components.runtime.stage import StageContext
from components.storage.local import LocalStore
from components.verify.run import run
from components.verify.spec import VerifySpec
from tests.components.ledger.building import a_begun_run, a_checkpoint, a_ledger, a_stage, safetensors_bytes

ROOT = Path(__file__).parents[3]


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return a_ledger(LocalStore(tmp_path / "storage"))


@pytest.fixture
def stage(tmp_path: Path) -> Path:
    return a_stage(tmp_path / "stage")


@dataclass
class Outcome:
    """How the stage ended."""

    code: int
    outputs: Mapping[str, str]
    said: str
    log: str


def verify(
    ledger: Ledger, *, checkpoint: str = "", level: VerifyLevel = "tensors", has_checkpoints: bool = True,
    task: str = "verify",
) -> Outcome:  # fmt: skip
    """Run the stage in this process."""
    spec = VerifySpec(experiment="gpt", model_version="v1", level=level, has_checkpoints=has_checkpoints)
    stream = io.StringIO()
    context = StageContext(
        task=task, attempt=0, run="gpt-aaaaa", workflow="gpt-aaaaa", storage=ledger.store.uri, workdir="",
        inputs={"checkpoint": checkpoint}, node="node-0", log=Log({}, stream),
    )  # fmt: skip
    try:
        return Outcome(0, run(context, spec), "", stream.getvalue())
    except ArgosyError as error:
        return Outcome(int(error.exit_code), {}, str(error), stream.getvalue())


def verify_as_the_workflow_does(ledger: Ledger, folder: Path) -> tuple[int, dict[str, str], str]:
    """Exit code, outputs and last words of the process."""
    spec = {"experiment": "gpt", "model_version": "v1", "level": "tensors", "has_checkpoints": True}
    out, last_words = folder / "out", folder / "last-words"
    out.mkdir(exist_ok=True)
    result = subprocess.run(
        [
            sys.executable, "-m", "components.verify", "--spec", json.dumps(spec), "--storage", ledger.store.uri,
            "--run", "gpt-aaaaa", "--task", "verify", "--input", "checkpoint=",
        ],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=60,
        env={**os.environ, "ARGOSY_OUT": str(out), "ARGOSY_TERMINATION_LOG": str(last_words)},
    )  # fmt: skip
    return result.returncode, {path.name: path.read_text() for path in out.iterdir()}, last_words.read_text()


def test_the_process_says_in_exit_code_outputs_and_last_words_what_it_found(
    ledger: Ledger, stage: Path, tmp_path: Path
) -> None:
    code, outputs, said = verify_as_the_workflow_does(ledger, tmp_path)
    assert (code, outputs) == (96, {})
    assert said.startswith("NothingCommitted: gpt/v1 has no committed checkpoint; let the program checkpoint")

    a_checkpoint(ledger, stage, step=10, term=a_begun_run(ledger))
    code, outputs, said = verify_as_the_workflow_does(ledger, tmp_path)
    assert (code, outputs) == (0, {"checkpoint": "step-10-term-1", "verdict": "verified", "level": "tensors"})
    assert said == "checkpoint step-10-term-1, verdict verified, level tensors"


def test_the_newest_committed_one_is_verified_and_a_second_look_writes_nothing(ledger: Ledger, stage: Path) -> None:
    term = a_begun_run(ledger)
    a_checkpoint(ledger, stage, step=10, term=term)
    a_checkpoint(ledger, stage, step=20, term=term)

    first = verify(ledger)
    seq = ledger.state().seq
    second = verify(ledger)

    assert (first.code, first.outputs) == (
        0, {"checkpoint": "step-20-term-1", "verdict": "verified", "level": "tensors"},
    )  # fmt: skip
    assert (second.code, second.outputs, ledger.state().seq) == (0, first.outputs, seq)
    entries = ledger.state().checkpoints
    assert (entries["step-20-term-1"].status, entries["step-20-term-1"].level) == ("verified", "tensors")
    assert entries["step-10-term-1"].status == "committed"


def test_a_poisoned_checkpoint_is_quarantined_with_tensor_and_byte(ledger: Ledger, tmp_path: Path) -> None:
    poisoned = a_stage(tmp_path / "bad", {"model.safetensors": safetensors_bytes({"head": [1.0, float("nan")]})})
    a_checkpoint(ledger, poisoned, step=10, term=a_begun_run(ledger))

    first, second = verify(ledger), verify(ledger)

    expected = "step-10-term-1 is quarantined: model.safetensors, tensor head, byte 76: is not finite"
    assert (first.code, first.outputs) == (96, {})
    assert expected in first.said
    assert (second.code, expected in second.said) == (96, True)
    assert '"byte": 76' in first.log


def test_the_level_asked_for_is_the_level_looked_at(ledger: Ledger, tmp_path: Path) -> None:
    poisoned = a_stage(tmp_path / "bad", {"model.safetensors": safetensors_bytes({"head": [float("nan")]})})
    a_checkpoint(ledger, poisoned, step=10, term=a_begun_run(ledger))

    assert verify(ledger, level="digests").code == 0
    assert ledger.state().checkpoints["step-10-term-1"].level == "digests"


def test_damage_since_the_last_look_is_found(ledger: Ledger, stage: Path) -> None:
    a_checkpoint(ledger, stage, step=10, term=a_begun_run(ledger), verified="tensors")
    path = ledger.store.local_path(f"{ledger.state().checkpoints['step-10-term-1'].folder}/model.safetensors")
    assert path is not None
    path.write_bytes(path.read_bytes()[:-4])

    found = verify(ledger, checkpoint="step-10-term-1")

    assert found.code == 96
    assert "model.safetensors, byte 87: has another size (expected 91 bytes, found 87 bytes)" in found.said
    assert ledger.state().checkpoints["step-10-term-1"].status == "quarantined"


def test_a_format_that_is_not_looked_into_is_noted(ledger: Ledger, tmp_path: Path) -> None:
    a_checkpoint(ledger, a_stage(tmp_path / "h5", {"model.h5": b"hdf"}), step=10, term=a_begun_run(ledger))

    found = verify(ledger)

    assert found.code == 0
    assert "model.h5: digest only, its format is not looked into" in found.log


def test_a_weight_of_another_shape_than_before_is_quarantined(ledger: Ledger, tmp_path: Path) -> None:
    term = a_begun_run(ledger)
    for step, values in ((10, [1.0, 2.0]), (20, [1.0, 2.0, 3.0]), (30, [1.0, 2.0])):
        files = {"model.safetensors": safetensors_bytes({"head": values}), "state.json": b"{}"}
        a_checkpoint(ledger, a_stage(tmp_path / str(step), files), step=step, term=term)

    found = {step: verify(ledger, checkpoint=f"step-{step}-term-1") for step in (10, 20, 30)}

    assert [outcome.code for outcome in found.values()] == [0, 96, 0]
    told = "model.safetensors, tensor head: differs in type from step-10-term-1 of the same run"
    assert f"{told} (expected F32[2], found F32[3])" in found[20].said


def test_another_run_may_have_another_model(ledger: Ledger, tmp_path: Path) -> None:
    a_checkpoint(ledger, a_stage(tmp_path / "a"), step=10, term=a_begun_run(ledger), verified="tensors")
    other = {"model.safetensors": safetensors_bytes({"weight": [1.0], "new": [2.0]})}
    term = a_begun_run(ledger, "gpt-bbbbb", source="step-10-term-1")
    a_checkpoint(ledger, a_stage(tmp_path / "b", other), step=20, term=term, run="gpt-bbbbb", parent="step-10-term-1")

    found = verify(ledger)

    assert found.code == 0
    assert "types changed since step-10-term-1: weight F32[4] -> F32[1]" in found.log
    assert "tensors that are new since step-10-term-1: new" in found.log


class Vanishing(LocalStore):
    """A cleaner deletes `b.safetensors` between any look at the folder and the look into that file."""

    def open(self, key: str) -> BinaryIO:
        if key.endswith("/b.safetensors"):
            (self.root / key).unlink(missing_ok=True)
        return super().open(key)


def test_a_checkpoint_that_is_cleaned_away_meanwhile_is_not_compared_with(ledger: Ledger, tmp_path: Path) -> None:
    files = dict.fromkeys(("a.safetensors", "b.safetensors"), safetensors_bytes({"head": [1.0]}))
    a_checkpoint(ledger, a_stage(tmp_path / "a", files), step=10, term=a_begun_run(ledger))
    entry = ledger.state().checkpoints["step-10-term-1"]
    before = Previous(entry.checkpoint, entry.folder, entry.manifest_sha256, is_same_run=True)

    assert set(types_of(ledger.store, before)) == {"a.safetensors:head", "b.safetensors:head"}
    assert types_of(Vanishing(tmp_path / "storage"), before) == {}


def test_nothing_is_loaded_beside_the_ranks(ledger: Ledger, stage: Path) -> None:
    a_checkpoint(ledger, stage, step=10, term=a_begun_run(ledger))

    found = verify(ledger, level="load", task="training-verify-step-10-term-1")

    assert found.outputs == {"checkpoint": "step-10-term-1", "verdict": "verified", "level": "tensors"}


def test_without_checkpoints_there_is_nothing_to_do(ledger: Ledger) -> None:
    found = verify(ledger, has_checkpoints=False)

    assert (found.code, found.outputs) == (0, {"checkpoint": "", "verdict": "none", "level": ""})
    assert "checkpoint: none, so there is nothing to verify" in found.log


def test_an_unknown_checkpoint_is_bad_input(ledger: Ledger, stage: Path) -> None:
    a_checkpoint(ledger, stage, step=10, term=a_begun_run(ledger))

    assert verify(ledger, checkpoint="step-11-term-1").code == 78


def test_a_retired_one_is_not_verified_and_not_quarantined(ledger: Ledger, stage: Path) -> None:
    term = a_begun_run(ledger)
    for step in (10, 20):
        a_checkpoint(ledger, stage, step=step, term=term, verified="tensors")
    retired = (Retired(checkpoint="step-10-term-1", reason="old"),)
    ledger.append(lambda state: Retire(run="gpt-aaaaa", checkpoints=retired, survivors=()))

    found = verify(ledger, checkpoint="step-10-term-1")

    assert found.code == 96
    assert "CheckpointRetired: step-10-term-1 is retired: old" in found.said


def test_a_damaged_ledger_is_named_and_nothing_is_judged(ledger: Ledger, stage: Path) -> None:
    a_checkpoint(ledger, stage, step=10, term=a_begun_run(ledger))
    key = "checkpoints/gpt/v1/log/000000000003.json"
    ledger.store.replace(key, ledger.store.read(key)[:-10])

    found = verify(ledger)

    assert found.code == 78
    assert "TornRecord" in found.said
    assert key in found.said


def test_starting_the_stage_does_not_load_numpy_or_torch() -> None:
    code = (
        "import sys, components.verify.run, components.retain.run; print({'numpy', 'torch', 'hera'} & set(sys.modules))"
    )

    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)

    assert result.stdout.strip() == "set()"
