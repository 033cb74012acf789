"""What the command line does with runs on this machine: create, start, watch, stop, resume."""

import contextlib
import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from components.contracts.canonical import canonical_bytes
from components.contracts.clock import now_text
from components.contracts.stop import StopRequest
from components.errors import ArgosyError, BadInput, EnvironmentUnfit
from infra.local.reader import load_program
from infra.local.run_dir import CHECKOUT, RunDir, RunInfo, sync_folder

_TARGET = "local"
_LEAVING_SECONDS = 5.0
"""How long an engine may take to go after its last word."""


def home(environ: Mapping[str, str] = os.environ) -> Path:
    """`$ARGOSY_HOME`, by default `~/.local/state/argosy`. Raises BadInput where a user's home is unknown."""
    given = environ.get("ARGOSY_HOME", "")
    try:
        return Path(given).expanduser().absolute() if given else Path.home() / ".local" / "state" / "argosy"
    except RuntimeError as error:
        what = f"ARGOSY_HOME is {given!r}" if given else "neither ARGOSY_HOME nor HOME is set"
        raise BadInput("NoHome", f"{what}, and no such user's home is known", "set ARGOSY_HOME to a folder") from error


def create_run(
    *,
    home: Path,
    manifest: Mapping[str, Any],
    run: str,
    experiment: str,
    model_version: str,
    parameters: Mapping[str, str],
    description: Mapping[str, Any],
    argv: Sequence[str],
) -> RunDir:
    """The folder of a new run, complete or absent. Nothing starts yet.

    `parameters` replace the manifest's own. Raises BadInput when the engine cannot honour the manifest or the run
    exists, EnvironmentUnfit when the folder cannot be written.
    """
    final = _with_parameters(manifest, parameters)
    program = load_program(final)
    try:
        info = RunInfo(
            run=run, experiment=experiment, model_version=model_version, target=_TARGET, created_at=now_text(),
            argv=tuple(argv), storage=program.parameters.get("storage", ""), description=dict(description),
        )  # fmt: skip
    except ValidationError as error:
        fix = "lowercase letters, digits and hyphens, a letter first, at most 63"
        raise BadInput("BadRunName", f"a run cannot be called {run!r}", fix) from error
    folder = home / "runs" / run
    temporary = home / "runs" / f".new-{run}-{secrets.token_hex(4)}"
    try:
        temporary.mkdir(parents=True)
        try:
            _write(temporary / "manifest.json", canonical_bytes(final))
            _write(temporary / "run.json", info.to_bytes())
            sync_folder(temporary)
            os.rename(temporary, folder)  # fails when the run exists: its folder is never empty
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        sync_folder(folder.parent)
    except OSError as error:
        if folder.is_dir():
            raise BadInput("RunExists", f"{folder} exists already", "choose another run name") from error
        raise EnvironmentUnfit(
            "HomeNotWritable",
            f"cannot write {folder}: {error.strerror}",
            "set ARGOSY_HOME to a folder on a disk with space",
        ) from error
    return RunDir(folder)


def withdraw_run(run_dir: RunDir) -> None:
    """Remove a run for which no engine was ever started; any other is left alone."""
    if not run_dir.engine_log_path.exists():
        shutil.rmtree(run_dir.path, ignore_errors=True)


def start_engine(run_dir: RunDir, *, resume: bool = False) -> int:
    """Start the run's engine as a process of its own session and return its pid once it holds the run.

    Raises BadInput when another engine has the run, and whatever the engine could not do.
    """
    read_end, write_end = os.pipe()
    command = [sys.executable, "-m", "infra.local", "--run-dir", str(run_dir.path), "--ready-fd", str(write_end)]
    try:
        with open(run_dir.engine_log_path, "ab") as log, open(os.devnull, "rb") as null:
            engine = subprocess.Popen(
                [*command, "--resume"] if resume else command,
                stdin=null, stdout=log, stderr=log, cwd=run_dir.path, start_new_session=True, pass_fds=(write_end,),
                env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
            )  # fmt: skip
    except OSError as error:
        os.close(read_end)
        raise EnvironmentUnfit(
            "EngineNotStarted", f"cannot start the engine of {run_dir.path}: {error.strerror}", "free space or memory"
        ) from error
    finally:
        os.close(write_end)
    with os.fdopen(read_end, "rb") as ready:
        answer = ready.read()
    if answer == b"ready":
        engine.returncode = 0  # it is nobody's child to wait for: it goes on when we are gone
        return engine.pid
    code = engine.wait()
    reason = answer.decode(errors="replace") or f"it exited with {code}; see {run_dir.engine_log_path}"
    error_type = EnvironmentUnfit if code == EnvironmentUnfit.exit_code else BadInput
    raise error_type("EngineNotStarted", f"the engine of {run_dir.name} did not start: {reason}", "")


def request_stop(run_dir: RunDir, *, by: str, force: bool = False) -> None:
    """Ask the engine to stop the run: gracefully, or with `force` at once and without the exit handler.

    Raises EnvironmentUnfit when the request cannot be written.
    """
    request = StopRequest(by=by, at=now_text(), force=force)
    temporary = run_dir.path / f".stop-{secrets.token_hex(4)}"
    try:
        _write(temporary, request.to_bytes())
        os.replace(temporary, run_dir.stop_path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise EnvironmentUnfit(
            "StopNotWritten", f"cannot write {run_dir.stop_path}: {error.strerror}",
            "free space there, or end the engine of the run with SIGTERM: `resume` then continues it",
        ) from error  # fmt: skip


def resume(run_dir: RunDir) -> int:
    """Go on with a failed, stopped or engine-less run: what succeeded is kept, the rest runs. Returns the engine's pid.

    Raises BadInput when the run succeeded or still has an engine.
    """
    state = run_dir.state()
    if state.phase == "Succeeded":
        raise BadInput("RunSucceeded", f"run {run_dir.name} succeeded at {state.finished_at}", "submit a new run")
    give_up_at = time.monotonic() + _LEAVING_SECONDS
    while state.is_final and run_dir.engine_alive() and time.monotonic() < give_up_at:
        time.sleep(0.01)
    return start_engine(run_dir, resume=True)


def list_runs(home: Path) -> list[RunDir]:
    """Every run, oldest first."""
    return sorted(_runs(home), key=lambda run_dir: (_created_at(run_dir), run_dir.name))


def _with_parameters(manifest: Mapping[str, Any], parameters: Mapping[str, str]) -> dict[str, Any]:
    spec = dict(manifest.get("spec") or {})
    arguments = dict(spec.get("arguments") or {})
    declared = [dict(parameter) for parameter in arguments.get("parameters") or ()]
    unknown = sorted(set(parameters) - {str(parameter.get("name")) for parameter in declared})
    if unknown:
        raise BadInput("UnknownParameter", f"the Workflow has no parameter {', '.join(unknown)}", "remove it")
    for parameter in declared:
        if parameter.get("name") in parameters:
            parameter["value"] = parameters[parameter["name"]]
    if declared:
        spec["arguments"] = {**arguments, "parameters": declared}
    return {**manifest, "spec": spec}


def _runs(home: Path) -> Iterator[RunDir]:
    try:
        entries = list(os.scandir(home / "runs"))
    except FileNotFoundError:
        return
    except OSError as error:
        raise EnvironmentUnfit(
            "HomeNotReadable", f"cannot list {home / 'runs'}: {error.strerror}", "set ARGOSY_HOME to a folder of yours"
        ) from error
    for entry in entries:
        run_dir = RunDir(Path(entry.path))
        if not entry.name.startswith(".") and run_dir.manifest_path.is_file():
            yield run_dir


def _created_at(run_dir: RunDir) -> str:
    try:
        return run_dir.info().created_at
    except ArgosyError:
        return ""  # unreadable: whoever opens that run is told


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
