"""`python -m components.verify PLACE`: a verdict on any checkpoint, as text and JSON, by exit code."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from components.verify.standalone import main
from tests.components.integrity.looking import SOUND
from tests.fakes.s3_server import S3Server

ROOT = Path(__file__).parents[3]
DAMAGE = ROOT / "tests" / "damage"


def test_a_sound_one_is_good(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(SOUND / "torchtitan" / "step-300")]) == 0

    said = capsys.readouterr().out.splitlines()
    assert said[0] == "note: no digests were recorded: files and bytes that were never there cannot be missed"
    assert "torchtitan/step-300: good (torchtitan, step 300, level tensors): 3 files, 12" in said[1]


def test_a_damaged_one_is_told_with_file_tensor_and_byte(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = shutil.copytree(DAMAGE / "dcp-nan" / "checkpoint", tmp_path / "step-300")

    assert main([str(folder), "-o", "json", "--workers", "2"]) == 96

    told = json.loads(capsys.readouterr().out)
    assert (told["verdict"], told["layout"], told["level"]) == ("damaged", "Argosy", "tensors")
    assert told["faults"] == [
        {"file": "__0_0.distcp", "problem": "is not finite", "offset": 307, "tensor": "w", "expected": "finite values",
         "actual": "NaN"}
    ]  # fmt: skip


@pytest.mark.parametrize("level", ["files", "digests", "tensors"])
def test_our_own_manifest_is_believed(level: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = shutil.copytree(DAMAGE / "bit-flip-in-a-tensor" / "checkpoint", tmp_path / "term-000002")

    assert main([str(folder), "--level", level]) == (0 if level == "files" else 96)
    assert ("SHA-256 differs" in capsys.readouterr().out) is (level != "files")


def test_usage_and_places_that_are_none_are_exit_78(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "nowhere")]) == 78
    assert main([str(tmp_path), "-o", "json"]) == 78
    said = capsys.readouterr()
    assert json.loads(said.out)["reason"] == "EmptyFolder"
    for arguments in ([], ["a", "b"], ["a", "--workers", "0"], ["a", "--workers", "x"], ["a", "--level", "deep"]):
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        assert caught.value.code == 78


def test_the_program_helps_and_judges() -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "components.verify", *arguments]
        return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)

    helped, good = run("--help"), run(str(SOUND / "lightning"))

    assert (helped.returncode, good.returncode) == (0, 0)
    for word in ("s3://", "--level", "--workers", "exit codes:", "Megatron", "Nothing is unpickled"):
        assert word in helped.stdout
    assert "good (Lightning, step 300, level tensors)" in good.stdout


def test_a_bucket_is_verified_from_the_environment(s3_server: S3Server) -> None:
    store = s3_server.new_store(prefix="x")
    for path in (SOUND / "megatron" / "iter_0000300").iterdir():
        store.create(f"iter_0000300/{path.name}", path.read_bytes())

    result = subprocess.run(
        [sys.executable, "-m", "components.verify", f"{store.uri}/iter_0000300", "-o", "json"], cwd=ROOT,
        capture_output=True, text=True, check=False, timeout=60, env={**os.environ, **s3_server.environment},
    )  # fmt: skip

    told = json.loads(result.stdout)
    assert (result.returncode, told["verdict"], told["layout"], told["num_files"]) == (0, "good", "Megatron", 6)
