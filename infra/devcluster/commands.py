"""Run a program and say what it said when it fails."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from components.errors import EnvironmentUnfit


def run(
    argv: Sequence[str | Path], *, stdin: str | None = None, cwd: Path | None = None,
    env: Mapping[str, str] | None = None, ok: Sequence[int] = (0,), seconds: float = 1800,
) -> str:  # fmt: skip
    """Its standard output. Raises EnvironmentUnfit with the command and the end of what it wrote to standard error."""
    words = [str(word) for word in argv]
    try:
        done = subprocess.run(
            words, input=stdin, cwd=cwd, env={**os.environ, **(env or {})}, capture_output=True, text=True, check=False,
            timeout=seconds,
        )  # fmt: skip
    except FileNotFoundError as error:
        raise EnvironmentUnfit("ProgramMissing", f"{words[0]} is not installed", "make cluster-host") from error
    except subprocess.TimeoutExpired as error:
        raise EnvironmentUnfit("CommandHangs", f"no end after {seconds:.0f} s: {' '.join(words)}") from error
    if done.returncode not in ok:
        said = (done.stderr or done.stdout).strip()[-2000:]
        raise EnvironmentUnfit("CommandFailed", f"exit {done.returncode} of {' '.join(words)[:400]}: {said}")
    return done.stdout


def in_netns(path: str, *argv: str | Path) -> list[str]:
    """The command inside a network namespace. Not `ip netns exec`, which mounts a /sys without control groups."""
    return ["nsenter", f"--net={path}", "--", *(str(word) for word in argv)]


def write(path: Path, text: str) -> None:
    """Only if it says something else now: kube-proxy ends when its configuration is touched."""
    if not path.exists() or path.read_text() != text:
        temporary = path.with_name(f"{path.name}.new")
        temporary.write_text(text)
        temporary.rename(path)
