"""Verify and retain during training: the same programs as the stages, one at a time, as children of low priority."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, get_args

from components.agent.events import Retain, RetainEnded, VerifyEnded, VerifyStep
from components.agent.run_context import RunContext
from components.contracts.canonical import canonical_json
from components.contracts.checkpoint import VerifyLevel
from components.contracts.gang import CheckpointRule, GangSpec
from components.contracts.names import DURING_TRAINING
from components.contracts.units import format_duration
from components.errors import ExitCode
from components.runtime.processes import spawn

_NICENESS = 10
_POLL_SECONDS = 0.05
_KILLED = 137


class Upkeep:
    """Runs the children of agent 0. Use it in the main thread: children die with the thread that started them."""

    def __init__(self, context: RunContext, rule: CheckpointRule) -> None:
        self._context, self._rule = context, rule
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def pids(self) -> frozenset[int]:
        """Our living children."""
        return frozenset() if self._child is None else frozenset({self._child.pid})

    def kill(self) -> None:
        """The verdict is out; a verification that is under way is made up for by whoever resumes."""
        if self._child is not None:
            self._child.kill()

    async def verify(self, action: VerifyStep) -> VerifyEnded:
        """Verify one checkpoint."""
        argument = f"checkpoint={action.checkpoint}"
        task = f"{DURING_TRAINING}-verify-{action.checkpoint}"
        spec, seconds = verify_spec(self._context.spec, self._rule), self._rule.verify_timeout_seconds
        code, words = await self._run("verify", spec, task, "--input", argument, timeout_seconds=seconds)
        return VerifyEnded(action.checkpoint, code, words, level=_as_level(self._output(task, "level")))

    async def retain(self, action: Retain) -> RetainEnded:
        """Apply the retention policy."""
        task = f"{DURING_TRAINING}-retain-{action.after}"
        spec, seconds = retain_spec(self._context.spec, self._rule), self._rule.retain_timeout_seconds
        code, words = await self._run("retain", spec, task, timeout_seconds=seconds)
        if code != 0:
            self._context.log.warning(f"retention after {action.after} failed: {words}")
            return RetainEnded()
        return RetainEnded(tuple(filter(None, self._output(task, "deleted").split(","))))

    async def _run(
        self, stage: str, spec: dict[str, Any], task: str, *arguments: str, timeout_seconds: float
    ) -> tuple[int, str]:
        """Exit code and last words of one child. One that hangs is killed: the gang waits for it before it leaves."""
        context, folder = self._context, self._folder(task)
        argv = [
            sys.executable, "-m", f"components.{stage}", "--spec", canonical_json(spec),
            "--storage", context.spec.storage, "--run", context.spec.run, "--workflow", context.spec.run,
            "--experiment", context.spec.experiment, "--task", task, *arguments,
        ]  # fmt: skip
        env = {
            **os.environ, "ARGOSY_OUT": str(folder / "out"), "ARGOSY_TERMINATION_LOG": str(folder / "last-words"),
            "ARGOSY_NODE": context.node,
        }  # fmt: skip
        try:
            (folder / "out").mkdir(parents=True, exist_ok=True)
            with (folder / "log.jsonl").open("ab") as log:
                self._child = spawn(argv, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            os.setpriority(os.PRIO_PROCESS, self._child.pid, _NICENESS)
        except OSError as error:
            return int(ExitCode.NODE_UNFIT), f"{stage} cannot run: {error}"
        give_up_at = time.monotonic() + timeout_seconds
        while (code := self._child.poll()) is None:
            if time.monotonic() >= give_up_at:
                self._child.kill()
            await asyncio.sleep(_POLL_SECONDS)
        self._child = None
        self._pass_on(folder / "log.jsonl")
        if code == -signal.SIGKILL and time.monotonic() >= give_up_at:
            return _KILLED, f"{stage} took longer than {stage}.timeout, {format_duration(timeout_seconds)}"
        words = _read(folder / "last-words") or f"exit code {code}, see its log"
        return code if code >= 0 else _KILLED, words

    def _output(self, task: str, name: str) -> str:
        return _read(self._folder(task) / "out" / name)

    def _folder(self, task: str) -> Path:
        return self._context.workdir / "upkeep" / task

    def _pass_on(self, path: Path) -> None:
        """The child's log lines join the node's own."""
        for line in _read(path).splitlines():
            try:
                fields = json.loads(line)
            except ValueError:
                fields = {"message": line}
            if isinstance(fields, dict):
                extra = {key: value for key, value in fields.items() if key not in ("at", "level", "message")}
                is_bad = fields.get("level") in ("warning", "error")
                write = self._context.log.warning if is_bad else self._context.log.info
                write(str(fields.get("message", "")), **extra)


def verify_spec(spec: GangSpec, rule: CheckpointRule) -> dict[str, Any]:
    """The Spec of the verify stage; stages are strangers, so it is spelled here."""
    names = {"experiment": spec.experiment, "model_version": spec.model_version}
    return {**names, "level": rule.verify_level, "has_checkpoints": True}


def retain_spec(spec: GangSpec, rule: CheckpointRule) -> dict[str, Any]:
    """The Spec of the retain stage."""
    names = {"experiment": spec.experiment, "model_version": spec.model_version}
    return {**names, "policy": rule.retain.as_json()}


def _as_level(text: str) -> VerifyLevel | None:
    return next((level for level in get_args(VerifyLevel) if level == text), None)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="backslashreplace")
    except OSError:
        return ""
