"""What every stage's `__main__` does: Spec in, outputs and a record out, errors turned into exit codes."""

import argparse
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn, Protocol, TypeVar

from pydantic import BaseModel

from components.contracts.clock import now_text
from components.contracts.document import read_spec
from components.contracts.layout import stage_record_key
from components.contracts.names import is_commit, is_run_name
from components.contracts.records import StageRecord
from components.errors import ArgosyError, BadInput, EnvironmentUnfit, ExitCode, Interrupted, Stopped
from components.runtime.again import earlier_of
from components.runtime.early import told_to_go
from components.runtime.log import Log

Spec = TypeVar("Spec", bound=BaseModel)


class _Listed(Protocol):
    @property
    def key(self) -> str: ...


class _RecordStore(Protocol):
    def replace(self, key: str, data: bytes) -> None: ...
    def read(self, key: str) -> bytes: ...
    def list(self, prefix: str) -> Iterable[_Listed]: ...
    def uri_of(self, key: str) -> str: ...


@dataclass(frozen=True)
class StageContext:
    """Where a stage runs and whose run it belongs to."""

    task: str
    """Name of the DAG task."""
    attempt: int
    run: str
    workflow: str
    storage: str
    """Root uri; open it with `components.storage.base.open_store`."""
    workdir: str
    """Folder of the run description on the submitting machine; empty on a cluster."""
    inputs: Mapping[str, str]
    """Output parameters of earlier stages."""
    node: str
    log: Log
    started_at: str = field(default_factory=now_text)


def stop_requested() -> bool:
    """Whether somebody asked this run to stop (locally: the engine's `stop.json`)."""
    stop_file = os.environ.get("ARGOSY_STOP_FILE", "")
    return bool(stop_file) and os.path.exists(stop_file)


def stage_main(
    name: str,
    spec_type: type[Spec],
    run: Callable[[StageContext, Spec], Mapping[str, str]],
    *,
    open_store: Callable[[str], _RecordStore],
    argv: Sequence[str],
    sigterm_raises: bool = True,
    repeats: bool = False,
) -> NoReturn:
    """Run one stage and exit with its code.

    `run` returns the output parameters; each is written to `$ARGOSY_OUT/<name>` before exit 0, none otherwise. With
    `sigterm_raises` a SIGTERM becomes Stopped (when a stop was asked for) or Interrupted wherever the stage is;
    without it the stage handles SIGTERM itself. In a resumed run a stage that finished before gives out what it
    published then, unless it `repeats`.
    """
    arguments = _parse(name, argv)
    context = _context(name, arguments)
    code, message, reason, fix, outputs = ExitCode.OK, "", "", "", dict[str, str]()
    store: _RecordStore | None = None
    try:
        if sigterm_raises:
            signal.signal(signal.SIGTERM, _raise_on_sigterm)
        _require_run(context.run)
        opened = open_store(context.storage)
        earlier = earlier_of(opened, run=context.run, workflow=context.workflow, task=context.task)
        if earlier.outputs is not None and not repeats:
            _give_again(context, earlier.outputs)
        context = _counted_on(context, earlier.first_attempt)
        store = opened  # only now: an ending before that would be recorded over an earlier Workflow's
        if sigterm_raises and told_to_go():  # while this process was still importing
            _raise_on_sigterm(signal.SIGTERM, None)
        _require_commit(arguments.commit)
        _leave_record(context, store)
        outputs = dict(run(context, read_spec(spec_type, arguments.spec)))
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # from here on the stage has done its work
        _write_outputs(outputs)
        message = _told(outputs)
    except ArgosyError as error:
        code, message, reason, fix = error.exit_code, str(error), error.reason, error.fix
        context.log.error(message, reason=reason, exit_code=int(code))
    except Exception as error:
        code, message, reason = ExitCode.BUG, f"Bug: {type(error).__name__}: {error}", "Bug"
        context.log.error(message, reason=reason, traceback=traceback.format_exc())
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _leave_last_words(message)
    if store is not None:
        _leave_record(context, store, exit_code=int(code), message=message, reason=reason, fix=fix, outputs=outputs)
    sys.stdout.flush()
    sys.exit(int(code))


def _require_run(run: str) -> None:
    """Whoever submits a Workflow by hand may name its run, which becomes a folder of the storage and part of names."""
    if not is_run_name(run):
        fix = "use lowercase letters, digits and hyphens, starting with a letter, at most 63 characters"
        raise BadInput("BadRunName", f"the run is called {run[:100]!r}", fix)


def _require_commit(commit: str) -> None:
    """A run that says which commit it is of must name one; empty, it is of none (a schedule's, or by hand)."""
    if commit and not is_commit(commit):
        fix = "pass the full SHA, 40 hexadecimal digits, or leave the parameter commit empty"
        raise BadInput("BadCommit", f"the commit is {commit[:100]!r}", fix)


def _give_again(context: StageContext, outputs: Mapping[str, str]) -> NoReturn:
    """End with what an earlier Workflow of this run published; that one's record goes on speaking for the task."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _write_outputs(outputs)
    told = f"finished in an earlier Workflow of this run: {_told(outputs) or 'no outputs'}"
    context.log.info(told)
    _leave_last_words(told)
    sys.stdout.flush()
    sys.exit(int(ExitCode.OK))


def _counted_on(context: StageContext, first_attempt: int) -> StageContext:
    if not first_attempt:
        return context
    attempt = first_attempt + context.attempt
    return replace(context, attempt=attempt, log=context.log.bind(attempt=attempt))


def _told(outputs: Mapping[str, str]) -> str:
    return ", ".join(f"{key} {value}" for key, value in outputs.items())


def image_fields(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The log field that says which image this process runs in, when it is known."""
    image = environ.get("ARGOSY_IMAGE", "")
    return {"image": image} if image else {}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        print(f"{self.prog}: {message}", file=sys.stderr)
        sys.exit(int(ExitCode.BAD_INPUT))


def _parse(name: str, argv: Sequence[str]) -> argparse.Namespace:
    parser = _Parser(prog=f"python -m components.{name}", allow_abbrev=False)
    parser.add_argument("--spec", required=True, help="the stage's Spec as JSON")
    parser.add_argument("--storage", required=True, help="root uri of the storage")
    parser.add_argument("--run", required=True, help="name of the run")
    parser.add_argument("--workflow", default="", help="name of the Workflow")
    parser.add_argument("--experiment", default="", help="for log lines")
    parser.add_argument("--task", default=name, help="name of the DAG task")
    parser.add_argument("--attempt", type=int, default=0, help="0 for the first try")
    parser.add_argument("--workdir", default="", help="folder that relative paths start from")
    parser.add_argument("--commit", default="", help="SHA of the Git commit this run is of; empty: of none")
    parser.add_argument("--input", action="append", default=[], metavar="NAME=VALUE", help="an earlier stage's output")
    return parser.parse_args(argv)


def _context(name: str, arguments: argparse.Namespace) -> StageContext:
    node = os.environ.get("ARGOSY_NODE") or socket.gethostname()
    fields: dict[str, Any] = {
        "experiment": arguments.experiment,
        "workflow": arguments.workflow,
        "run": arguments.run or arguments.workflow,
        "task": arguments.task,
        "attempt": arguments.attempt,
        "node": node,
        **({"commit": arguments.commit} if arguments.commit else {}),
        **image_fields(),
    }
    return StageContext(
        task=arguments.task or name, attempt=arguments.attempt, run=arguments.run or arguments.workflow,
        workflow=arguments.workflow, storage=arguments.storage, workdir=arguments.workdir,
        inputs=dict(item.split("=", 1) for item in arguments.input if "=" in item), node=node, log=Log(fields),
    )  # fmt: skip


def _raise_on_sigterm(signum: int, frame: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # raised once; a second SIGTERM must not cut the clean-up short
    if stop_requested():
        raise Stopped("StopRequested", "a stop was requested")
    raise Interrupted("Interrupted", "SIGTERM without a stop request", "unless the run was stopped, it is tried again")


def _write_outputs(outputs: Mapping[str, str]) -> None:
    folder = os.environ.get("ARGOSY_OUT", "")
    if not folder:
        for name, value in outputs.items():
            print(f"{name}={value}")
        return
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
        for name, value in outputs.items():
            (path / name).write_text(value, encoding="utf-8")
    except OSError as error:
        raise EnvironmentUnfit(
            "OutputsRefused", f"cannot write outputs to {folder}: {error.strerror}", "free space there"
        ) from error


def _leave_record(context: StageContext, store: _RecordStore, **ending: Any) -> None:
    record = StageRecord(
        task=context.task, attempt=context.attempt, workflow=context.workflow, node=context.node,
        started_at=context.started_at, ended_at=now_text() if ending else None, **ending,
    )  # fmt: skip
    try:
        store.replace(stage_record_key(context.run, task=context.task, attempt=context.attempt), record.to_bytes())
    except ArgosyError as error:
        # The record is for people; a store that refuses it is reported by the work itself when it matters.
        context.log.warning("could not leave a stage record", seen=str(error))


def _leave_last_words(message: str) -> None:
    path = os.environ.get("ARGOSY_TERMINATION_LOG", "/dev/termination-log")
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(message[:4000])
    except OSError:
        pass  # outside a pod there is nobody to read it
