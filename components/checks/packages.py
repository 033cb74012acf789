"""Is torch installed where the program runs, with a backend for its ranks? By metadata: importing it costs seconds."""

import importlib.metadata
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from components.checks.program import resolve
from components.checks.question import Question
from components.contracts.checks import CheckResult

WANTED = ("torch", "nvidia-nccl-cu11", "nvidia-nccl-cu12", "nvidia-nccl-cu13", "numpy", "safetensors")
"""Distributions whose versions matter to the ranks."""

_NEEDS_TORCH = ("torchrun", "accelerate", "deepspeed")
_ASK_SECONDS = 8.0
_ASK = """
import importlib.metadata as metadata, json, sys
found = {}
for name in sys.argv[1:]:
    try:
        found[name] = metadata.version(name)
    except metadata.PackageNotFoundError:
        pass
print(json.dumps(found))
"""


def torch_question(*, command: Sequence[str], wants_accelerator: bool) -> Question:
    """Asks for torch where `command` runs; hard when the command cannot do without it."""
    return Question(
        name="torch", scope="environment", hard=needs_torch(command), subject=command[0] if command else "",
        expected="torch with nccl" if wants_accelerator else "torch with gloo", origin="launch.command",
        remedy="install torch in the environment of the program (pip install 'argosy[train]' or torch)",
    )  # fmt: skip


def needs_torch(command: Sequence[str]) -> bool:
    """Whether `command` is known to be lost without torch: the reference trainer and torch's own launchers."""
    return "components.trainer" in command or (bool(command) and Path(command[0]).name in _NEEDS_TORCH)


def judge_torch(question: Question, *, versions: Mapping[str, str] | None, wants_accelerator: bool) -> CheckResult:
    """The answer for the distributions found; None when the program is not Python, so nothing can be said."""
    if versions is None:
        return question.ok("not looked for: the program is not a Python interpreter")
    torch = versions.get("torch")
    if torch is None:
        measured = "torch is not installed there"
        return question.fail(measured) if question.hard else question.ok(f"{measured}; the program may not need it")
    nccl = next((f"nccl {version}" for name, version in sorted(versions.items()) if name.startswith("nvidia-nccl")), "")
    if wants_accelerator and (re.search(r"\+(cpu|xpu)", torch) or (not nccl and "+cu" not in torch)):
        return question.fail(f"torch {torch}, built without nccl", "install a CUDA build of torch")
    return question.ok(f"torch {torch}, gloo" + (f", {nccl}" if nccl else ""))


def installed_versions(*, command: Sequence[str], workdir: Path, env: Mapping[str, str]) -> dict[str, str] | None:
    """Versions of WANTED in the interpreter that `command` starts; None when it does not start one.

    Raises OSError when that interpreter does not answer.
    """
    interpreter = _interpreter(command, workdir, env)
    if interpreter is None:
        return None
    if Path(interpreter).parent == Path(sys.executable).parent:  # the same environment: no need to ask a child
        return own_versions()
    try:
        answer = subprocess.run(
            [interpreter, "-c", _ASK, *WANTED], cwd=workdir, env=dict(env), stdin=subprocess.DEVNULL,
            capture_output=True, timeout=_ASK_SECONDS, check=True,
        )  # fmt: skip
        return {str(name): str(version) for name, version in json.loads(answer.stdout).items()}
    except (subprocess.SubprocessError, ValueError) as error:
        raise OSError(f"{interpreter} did not tell its packages: {error}") from error


def own_versions() -> dict[str, str]:
    """Versions of WANTED in this interpreter."""
    found = {}
    for name in WANTED:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _interpreter(command: Sequence[str], workdir: Path, env: Mapping[str, str]) -> str | None:
    """The Python that `command` starts: itself, or the one beside torchrun and its like."""
    program = resolve(command[0], workdir=workdir, env=env) if command else None
    if program is None:
        return None
    name = Path(program).name
    if re.fullmatch(r"python[0-9.]*", name):
        return program
    beside = Path(program).parent / "python"
    return str(beside) if name in _NEEDS_TORCH and os.access(beside, os.X_OK) else None
