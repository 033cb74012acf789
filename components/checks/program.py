"""Is the program there? Resolves the command as the ranks will, and the script it names."""

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from components.checks.question import Question
from components.contracts.checks import CheckResult

_SCRIPT_RUNNERS = ("python", "pypy", "torchrun", "accelerate", "bash", "sh", "dash", "zsh")
_NO_SCRIPT = ("-m", "-c", "--module", "-s")
"""After one of these what follows is a module name or code, not a script."""


def program_question(command: Sequence[str]) -> Question:
    """Asks for the executable of `command`, and for the script it names."""
    return Question(
        name="program", scope="input", subject=" ".join(command[:3])[:200], origin="launch.command",
        expected="an executable, and the script it names",
        remedy="correct launch.command, or install the program in the training environment",
    )  # fmt: skip


def program_exists(question: Question, *, command: Sequence[str], workdir: Path, env: Mapping[str, str]) -> CheckResult:
    """Looks `command[0]` up on the PATH of `env` (names with a `/` from `workdir`), and its script in `workdir`."""
    if not command or not command[0]:
        return question.fail("the command is empty")
    if not workdir.is_dir():
        return question.fail(
            f"the folder it would start in, {workdir}, does not exist", "submit from an existing folder"
        )
    program = resolve(command[0], workdir=workdir, env=env)
    if program is None:
        return question.fail(_why_not(command[0], workdir, env))
    obstacle = why_not_started(Path(program))
    if obstacle:
        return question.fail(
            f"{program} {obstacle}", "correct the first line of that file, or name its interpreter first"
        )
    script = script_of(command)
    if script is not None and not (workdir / script).is_file():
        kind = "is a folder" if (workdir / script).is_dir() else "does not exist"
        return question.fail(f"{program} is there, but its script {workdir / script} {kind}")
    return question.ok(program if script is None else f"{program} with {script}")


def judge_program(question: Question, *, path: str | None, obstacle: str, script_missing: str) -> CheckResult:
    """The answer for what somebody else found where the program will run."""
    if path is None:
        return question.fail(obstacle)
    if script_missing:
        return question.fail(f"{path} is there, but its script {script_missing} does not exist")
    return question.ok(path)


def resolve(name: str, *, workdir: Path, env: Mapping[str, str]) -> str | None:
    """The executable that `name` means when started in `workdir` with the PATH of `env`, or None."""
    if "/" in name:
        path = workdir / name
        return str(path) if path.is_file() and os.access(path, os.X_OK) else None
    return shutil.which(name, path=env.get("PATH", os.defpath))


def why_not_started(program: Path) -> str:
    """What the kernel would say against starting this executable, from its first line; empty when nothing is known."""
    try:
        with program.open("rb") as file:
            start = file.read(256)
    except OSError:
        return ""  # executable but not readable is allowed
    if not start.startswith(b"#!"):
        is_text = bool(start) and b"\0" not in start and not start.startswith(b"\x7fELF")
        return "is text without a first line `#!/path/to/interpreter`" if is_text or not start else ""
    line = start[2:].partition(b"\n")[0]
    words = line.split()  # the kernel keeps a carriage return as part of the name
    interpreter = os.fsdecode(words[0]) if words else ""
    if line.endswith(b"\r"):
        return f"has a first line that ends in a carriage return (`#!{interpreter}\\r`): save it with Unix line ends"
    return "" if os.access(interpreter, os.X_OK) else f"asks for the interpreter {interpreter!r}, which is not there"


def script_of(command: Sequence[str]) -> str | None:
    """The script a known interpreter or launcher is asked to run, or None when there is none to look for.

    `python -u train.py --lr 1` -> train.py; `python -m pkg` -> None; `torchrun --nproc-per-node 2 train.py` -> train.py
    """
    if not any(Path(command[0]).name.startswith(runner) for runner in _SCRIPT_RUNNERS):
        return None
    is_shell = Path(command[0]).name.endswith("sh")
    for word in command[1:]:
        if word in _NO_SCRIPT or (is_shell and word.startswith("-") and "c" in word):
            return None
        if word.endswith((".py", ".sh")) and not word.startswith("-"):
            return word
    return None


def _why_not(name: str, workdir: Path, env: Mapping[str, str]) -> str:
    if "/" not in name:
        return f"{name!r} is in no folder of PATH ({env.get('PATH', os.defpath)})"
    path = workdir / name
    if not path.exists():
        return f"{path} does not exist"
    return f"{path} is a folder" if path.is_dir() else f"{path} is not executable (chmod +x)"
