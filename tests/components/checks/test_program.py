"""The program: what the command means on this PATH, in this folder."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from components.checks.packages import installed_versions, judge_torch, own_versions, torch_question
from components.checks.program import program_exists, program_question, script_of
from components.contracts.checks import CheckResult, CheckStatus

Executable = Callable[[str, str], Path]


def asked(command: list[str], workdir: Path, path: str = os.defpath) -> CheckResult:
    return program_exists(program_question(command), command=command, workdir=workdir, env={"PATH": path})


def test_a_program_on_the_path_is_found(tmp_path: Path, executable: Executable) -> None:
    folder = executable("trainme", "exit 0")
    result = asked(["trainme", "--fast"], tmp_path, str(folder))
    assert (result.status, result.measured) == (CheckStatus.OK, f"{folder}/trainme")


def test_a_program_that_does_not_exist_is_the_inputs_fault(tmp_path: Path) -> None:
    result = asked(["no-such-program"], tmp_path, "/bin")
    assert (result.status, result.scope) == (CheckStatus.FAIL, "input")
    assert result.measured == "'no-such-program' is in no folder of PATH (/bin)"


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda path: None, "does not exist"),
        (lambda path: path.mkdir(), "is a folder"),
        (lambda path: path.write_text("x"), "is not executable (chmod +x)"),
    ],
)
def test_a_relative_program_starts_from_the_working_folder(
    tmp_path: Path, make: Callable[[Path], object], told: str
) -> None:
    make(tmp_path / "train")
    result = asked(["./train"], tmp_path)
    assert result.status is CheckStatus.FAIL
    assert result.measured.endswith(told)


def test_a_relative_program_that_is_executable_is_found(tmp_path: Path, executable: Executable) -> None:
    executable("train", "exit 0")
    assert asked(["bin/train"], tmp_path).status is CheckStatus.OK


def test_a_script_that_does_not_exist_fails_although_its_interpreter_is_there(
    tmp_path: Path, executable: Executable
) -> None:
    path = str(executable("python", "exit 0"))
    assert f"its script {tmp_path}/train.py does not exist" in asked(["python", "train.py"], tmp_path, path).measured
    (tmp_path / "train.py").mkdir()
    assert "is a folder" in asked(["python", "train.py"], tmp_path, path).measured
    (tmp_path / "train.py").rmdir()
    (tmp_path / "train.py").touch()
    assert asked(["python", "-u", "train.py"], tmp_path, path).status is CheckStatus.OK


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("#!/nowhere/python\nprint()\n", "asks for the interpreter '/nowhere/python', which is not there"),
        ("#!/usr/bin/env python\r\n", "carriage return (`#!/usr/bin/env\\r`): save it with Unix line ends"),
        ("import torch\n", "is text without a first line `#!/path/to/interpreter`"),
        ("", "is text without a first line `#!/path/to/interpreter`"),
    ],
)
def test_a_file_the_kernel_cannot_start_is_told_before_a_gang_tries(tmp_path: Path, content: str, told: str) -> None:
    program = tmp_path / "train"
    program.write_text(content, newline="")
    program.chmod(0o755)

    result = asked(["./train"], tmp_path)

    assert result.status is CheckStatus.FAIL
    assert result.measured.endswith(told)


def test_a_binary_is_left_to_the_kernel(tmp_path: Path) -> None:
    assert asked([sys.executable], tmp_path).status is CheckStatus.OK


def test_a_working_folder_that_does_not_exist_fails(tmp_path: Path) -> None:
    assert "does not exist" in asked(["sh"], tmp_path / "gone").measured


@pytest.mark.parametrize("command", [[], [""]])
def test_an_empty_command_fails(command: list[str], tmp_path: Path) -> None:
    assert asked(command, tmp_path).status is CheckStatus.FAIL


@pytest.mark.parametrize(
    ("command", "script"),
    [
        (["python", "train.py", "--lr", "1"], "train.py"),
        (["python3.12", "-u", "-W", "error", "a/train.py", "other.py"], "a/train.py"),
        (["/opt/bin/python", "-m", "pkg.train"], None),
        (["python", "-m", "pkg", "data.py"], None),
        (["python", "-c", "print('train.py')"], None),
        (["torchrun", "--nproc-per-node", "2", "train.py"], "train.py"),
        (["torchrun", "-m", "pkg"], None),
        (["bash", "run.sh"], "run.sh"),
        (["bash", "-ec", "python train.py"], None),
        (["./train", "config.py"], None),
        (["python"], None),
    ],
)
def test_the_script_of_a_command_is_recognised(command: list[str], script: str | None) -> None:
    assert script_of(command) == script


TRAINER = ("python", "-m", "components.trainer")


def torch_judged(versions: dict[str, str] | None, *command: str, gpu: bool = False) -> CheckResult:
    question = torch_question(command=command or TRAINER, wants_accelerator=gpu)
    return judge_torch(question, versions=versions, wants_accelerator=gpu)


@pytest.mark.parametrize(
    ("result", "status", "measured"),
    [
        (torch_judged({"torch": "2.15.0+cpu"}), CheckStatus.OK, "torch 2.15.0+cpu, gloo"),
        (torch_judged({"torch": "2.15.0", "nvidia-nccl-cu13": "2.30"}, gpu=True), CheckStatus.OK,
         "torch 2.15.0, gloo, nccl 2.30"),
        (torch_judged({"torch": "2.15.0+cpu"}, gpu=True), CheckStatus.FAIL, "torch 2.15.0+cpu, built without nccl"),
        (torch_judged({"torch": "2.15.0"}, gpu=True), CheckStatus.FAIL, "torch 2.15.0, built without nccl"),
        (torch_judged({"torch": "2.9.0+cu128"}, gpu=True), CheckStatus.OK, "torch 2.9.0+cu128, gloo"),
        (torch_judged({}), CheckStatus.FAIL, "torch is not installed there"),
        (torch_judged({}, "torchrun", "train.py"), CheckStatus.FAIL, "torch is not installed there"),
        (torch_judged({}, "python", "train.py"), CheckStatus.OK,
         "torch is not installed there; the program may not need it"),
        (torch_judged(None, "./train"), CheckStatus.OK, "not looked for: the program is not a Python interpreter"),
    ],
)  # fmt: skip
def test_torch_is_judged_by_what_the_program_needs(result: CheckResult, status: CheckStatus, measured: str) -> None:
    assert (result.status, result.measured) == (status, measured)


def test_our_own_interpreter_is_not_asked_through_a_child(tmp_path: Path) -> None:
    env = {"PATH": str(Path(sys.executable).parent)}
    assert installed_versions(command=["python"], workdir=tmp_path, env=env) == own_versions()
    assert "numpy" in own_versions()


def test_another_interpreter_is_asked_what_it_has(tmp_path: Path, executable: Executable) -> None:
    folder = executable("python", """echo '{"torch": "1.2.3"}'""")
    found = installed_versions(command=["python", "x.py"], workdir=tmp_path, env={"PATH": f"{folder}:/bin"})
    assert found == {"torch": "1.2.3"}


def test_torchrun_is_asked_through_the_python_beside_it(tmp_path: Path, executable: Executable) -> None:
    executable("python", """echo '{"torch": "1.2.3"}'""")
    folder = executable("torchrun", "exit 1")
    found = installed_versions(command=["torchrun", "x.py"], workdir=tmp_path, env={"PATH": f"{folder}:/bin"})
    assert found == {"torch": "1.2.3"}


@pytest.mark.parametrize("script", ["exit 3", "echo nonsense"])
def test_an_interpreter_that_does_not_tell_raises(tmp_path: Path, executable: Executable, script: str) -> None:
    folder = executable("python", script)
    with pytest.raises(OSError, match="did not tell its packages"):
        installed_versions(command=["python"], workdir=tmp_path, env={"PATH": f"{folder}:/bin"})


def test_a_program_that_is_not_python_has_no_packages(tmp_path: Path) -> None:
    assert installed_versions(command=["sh"], workdir=tmp_path, env={"PATH": "/bin"}) is None
