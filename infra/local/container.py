"""One container attempt on this machine: prepare its folder, start it, and read what it left."""

import errno
import os
import shutil
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from components.contracts.exit_message import ExitMessage
from infra.local.events import Phase
from infra.local.program import Leaf

MAX_OUTPUT_BYTES = 256 << 10
"""An output parameter is a small word; larger things go through storage. Argo's own limit lies in the same region."""
_MAX_LAST_WORDS_BYTES = 4096


@dataclass(frozen=True)
class Ending:
    """How an attempt ended, in Argo's terms."""

    phase: Phase
    message: str
    last_words: str
    outputs: Mapping[str, str]


def prepare_folder(folder: Path) -> None:
    """An empty folder for an attempt. What a crash left of the same attempt, which never ran, goes."""
    if folder.exists():
        shutil.rmtree(folder)
    (folder / "out").mkdir(parents=True)


def ending(leaf: Leaf, folder: Path, exit_code: int, *, deadline_message: str) -> Ending:
    """Read the outcome of an attempt. `deadline_message` is not empty when its deadline ended it, whatever its exit."""
    last_words = _last_words(folder / "last-words")
    outputs, missing = _outputs(leaf, folder)
    if deadline_message:
        return Ending("Failed", deadline_message, last_words, outputs)
    if exit_code != 0:
        return Ending("Failed", str(ExitMessage(exit_code, last_words)), last_words, outputs)
    if missing:
        return Ending("Error", f"wait: Error (exit code 64): {missing}", last_words, outputs)
    return Ending("Succeeded", "", last_words, outputs)


def _outputs(leaf: Leaf, folder: Path) -> tuple[dict[str, str], str]:
    """Output parameters that could be read, and why the first that could not."""
    outputs: dict[str, str] = {}
    problem = ""
    for output in leaf.template.outputs.parameters:
        try:
            text = _read_small(folder / "out" / leaf.outputs[output.name])
        except OSError as error:
            if output.value_from.default is None:
                problem = problem or f"open {output.value_from.path}: {(error.strerror or str(error)).lower()}"
                continue
            text = output.value_from.default
        outputs[output.name] = text.removesuffix("\n")  # one newline, for the convenience of `echo`
    return outputs, problem


def _read_small(path: Path) -> str:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        data = file.read(MAX_OUTPUT_BYTES + 1)
    if len(data) > MAX_OUTPUT_BYTES:
        raise OSError(errno.EFBIG, f"larger than {MAX_OUTPUT_BYTES} bytes")
    return data.decode(errors="replace")


def _last_words(path: Path) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            return file.read(_MAX_LAST_WORDS_BYTES).decode(errors="replace").strip()
    except OSError:
        return ""
