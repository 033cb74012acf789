"""Level `load`: an isolated child loads the checkpoint with torch, within a deadline and a memory limit.

The child gets an empty environment, no network where the machine allows that, and `weights_only`. It runs after level
`tensors` found nothing, so what torch unpickles there has been read before.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.contracts.units import format_size
from components.errors import EnvironmentUnfit
from components.integrity.dcp_metadata import METADATA_NAME
from components.integrity.fault import Fault
from components.integrity.one_pass import Wanted
from components.runtime.processes import spawn
from components.storage.base import ObjectStore

_SCRIPT = Path(__file__).parent.parent / "trainer" / "load_check.py"
_NO_TORCH, _NO_MEMORY = 3, 4
_LOADED = (".safetensors", ".pt", ".pth", ".ckpt", ".bin")
_START_SECONDS, _BYTES_A_SECOND = 120.0, 20_000_000
_SPARE_BYTES = 2 << 30
_COPY_BYTES = 1 << 20


@dataclass(frozen=True)
class Loaded:
    """What loading showed."""

    faults: tuple[Fault, ...]
    notes: tuple[str, ...]
    num_tensors: int


def load_files(
    store: ObjectStore, folder: str, files: Sequence[Wanted], *, python: str = sys.executable,
    deadline_seconds: float | None = None, memory_bytes: int | None = None,
) -> Loaded:  # fmt: skip
    """Load those of `files` that torch or safetensors can load, with `python`, the training environment's.

    The limits default to what the files' sizes call for. Raises EnvironmentUnfit when `python` has no torch, or the
    limits do not suffice: neither says anything about the checkpoint.
    """
    size_bytes = sum(file.size_bytes for file in files)
    names = [file.path for file in files if file.path.endswith(_LOADED) or Path(file.path).name == METADATA_NAME]
    if not names:
        return Loaded((), ("load: no file here is one that torch loads",), 0)
    memory = memory_bytes if memory_bytes is not None else 2 * size_bytes + _SPARE_BYTES
    deadline = deadline_seconds if deadline_seconds is not None else _START_SECONDS + size_bytes / _BYTES_A_SECOND
    with ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="argosy-load-"))
        place = _local_folder(store, folder, files, Path(scratch, "files"))
        argv = [python, "-I", str(_SCRIPT), str(place), str(memory), *names]
        code, out, words = _run(argv, cwd=scratch, deadline=deadline)
    if code == 0:
        return _read(out)
    if code == _NO_TORCH:
        raise EnvironmentUnfit(
            "TorchMissing", f"verify.level is load, but {python} has no torch: {_last_line(words)}",
            "run verify where the training environment is, or use level tensors, which needs no torch",
        )  # fmt: skip
    if code in (_NO_MEMORY, -signal.SIGKILL):
        raise EnvironmentUnfit(
            "LoadOutOfMemory", f"loading {format_size(size_bytes)} took more than {format_size(memory)} of memory",
            "verify on a larger machine, or use level tensors, whose memory does not grow with the files",
        )  # fmt: skip
    if code is None:
        raise EnvironmentUnfit(
            "LoadDeadline", f"loading {format_size(size_bytes)} took more than {deadline:.0f} s",
            "look at the storage's speed, or use level tensors",
        )  # fmt: skip
    how = f"died of signal {-code}" if code < 0 else f"ended with exit code {code}"
    return Loaded((Fault(names[0], f"cannot be loaded: the loading process {how}", actual=_last_line(words)),), (), 0)


def _run(argv: list[str], *, cwd: str, deadline: float) -> tuple[int | None, bytes, bytes]:
    """(exit code, or None after the deadline; output; last words)."""
    allowed = {name: os.environ[name] for name in ("PATH", "LANG", "LD_LIBRARY_PATH") if name in os.environ}
    env = {**allowed, "HOME": cwd, "TMPDIR": cwd, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    child = spawn(argv, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        out, words = child.communicate(timeout=deadline)
    except subprocess.TimeoutExpired:
        return None, b"", b""
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.communicate()
    return child.returncode, out, words


def _read(out: bytes) -> Loaded:
    value: dict[str, Any] = json.loads(out.splitlines()[-1])
    faults = tuple(Fault(name, "cannot be loaded", actual=why) for name, why in value["failed"].items())
    notes = tuple(f"{name}: not loaded, {why}" for name, why in value["skipped"].items())
    return Loaded(faults, notes, value["num_tensors"])


def _local_folder(store: ObjectStore, folder: str, files: Sequence[Wanted], scratch: Path) -> Path:
    """Where the files lie on this machine; copied to `scratch` when the store is elsewhere."""
    here = store.local_path(folder)
    if here is not None:
        return here
    for file in files:
        target = scratch / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        with store.open(f"{folder}/{file.path}") as stream, target.open("wb") as copy:
            shutil.copyfileobj(stream, copy, _COPY_BYTES)
    return scratch


def _last_line(words: bytes) -> str:
    lines = words.decode("utf-8", "replace").strip().splitlines()
    return "".join(letter if letter.isprintable() else "?" for letter in lines[-1][:300]) if lines else ""
