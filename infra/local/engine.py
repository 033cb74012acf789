"""Runs one Workflow on this machine: the loop between the walk, which decides, and the processes, which happen.

    reap what ended → see what was asked for → walk → start what is ready → make it durable → sleep

One thread: children are forked from it (PDEATHSIG follows the forking thread), and it sleeps in `select`, woken by
SIGCHLD, by the next deadline, or to look for `stop.json`.
"""

import os
import select
import signal
import socket
import time
import traceback
from datetime import UTC, datetime, timedelta
from types import FrameType

from components.contracts.clock import parse_utc, utc_text
from components.contracts.node_names import is_exit_node
from components.errors import ArgosyError, ExitCode
from components.runtime.log import Log
from components.runtime.processes import boot_id, start_time
from infra.local.container import ending, prepare_folder
from infra.local.environment import container_environment
from infra.local.events import (
    AttemptEnded,
    AttemptLost,
    AttemptStarted,
    DeadlinePassed,
    EngineLeft,
    EngineStarted,
    Event,
    MainEnded,
    NodeReset,
    RunEnded,
    StopAsked,
)
from infra.local.journal import Journal
from infra.local.leftovers import kill_leftovers
from infra.local.names import attempt_folder
from infra.local.outcome import LEAF_DEADLINE, WORKFLOW_DEADLINE, outcome, stop_strategy
from infra.local.program import Program
from infra.local.resumption import nodes_to_repeat
from infra.local.run_dir import RunDir
from infra.local.running import Running, kill_all, reap
from infra.local.state import LOST, Fold
from infra.local.substitution import SubstitutionError
from infra.local.supervisor import Command, start
from infra.local.variables import container_command, exit_variables, workflow_variables
from infra.local.walk import Halt, Ready, Walk, dag_phase

_STOP_POLL_SECONDS = 0.25


def _now() -> datetime:
    return datetime.now(UTC)


class Engine:
    """One engine, one run. Create it while holding the run's lock."""

    def __init__(self, run_dir: RunDir, program: Program, journal: Journal, log: Log) -> None:
        self._dir, self._program, self._journal, self._log = run_dir, program, journal, log
        self._fold = Fold(journal.events)
        self._running: dict[int, Running] = {}
        self._slots = max(2, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 2)
        self._told_to_go: list[str] = []
        self._wake_at: datetime | None = None
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        self._node = socket.gethostname()

    def run(self, *, resumed: bool) -> int:
        """Run to the end and return the exit code: the run's, or 84 when told to go before."""
        if self._fold.run.is_final and (not resumed or self._fold.run.phase == "Succeeded"):
            return self._fold.run.exit_code or 0
        self._listen()
        try:
            self._take_over(resumed)
            while not self._fold.run.is_final:
                self._collect()
                self._notice_stop()
                self._notice_deadlines()
                if self._told_to_go:
                    self._wake_at = None  # no backoff matters any more
                    if not self._running:
                        self._record(EngineLeft(at=utc_text(_now()), message=f"the engine got {self._told_to_go[0]}"))
                        self._journal.sync()
                        return int(ExitCode.INTERRUPTED)
                else:
                    self._advance()
                self._journal.sync()
                if not self._fold.run.is_final:
                    self._sleep()
        except ArgosyError as error:
            return self._give_up(error)
        except Exception as error:
            self._log.error(f"Bug: {type(error).__name__}: {error}", traceback=traceback.format_exc())
            kill_all(self._running)  # the record stays as it is: the run can be resumed
            return int(ExitCode.BUG)
        return self._fold.run.exit_code or 0

    def _listen(self) -> None:
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._be_told)

    def _be_told(self, number: int, frame: FrameType | None) -> None:
        self._told_to_go.append(signal.Signals(number).name)

    def _record(self, event: Event) -> None:
        self._journal.append(event)
        self._fold.apply(event)

    # Taking over

    def _take_over(self, resumed: bool) -> None:
        repeated = nodes_to_repeat(self._program, self._fold.run, self._fold.nodes) if resumed else ()
        if resumed:
            self._dir.stop_path.unlink(missing_ok=True)
        if self._fold.run.started_at is not None:
            kill_leftovers(self._dir, self._log)
        engines = sum(isinstance(event, EngineStarted) for event in self._journal.events)
        self._journal.events.clear()
        at = utc_text(_now())
        pid = os.getpid()
        self._record(
            EngineStarted(
                at=at, incarnation=engines + 1, pid=pid, process_started=start_time(pid), boot_id=boot_id(),
                host=self._node, resumed=resumed,
            )
        )  # fmt: skip
        for node in list(self._fold.nodes.values()):
            if node.last is not None and node.last.finished_at is None:
                self._record(AttemptLost(at=at, node=node.name, attempt=node.last.attempt, message=LOST))
        for name in repeated:
            self._record(NodeReset(at=at, node=name))
        self._log.info("engine started", incarnation=engines + 1, resumed=resumed, repeated=list(repeated))

    # What happened

    def _collect(self) -> None:
        for item, code in list(reap(self._running)):
            del self._running[item.pid]
            at = utc_text(_now())
            if self._told_to_go and code != 0:
                self._record(AttemptLost(at=at, node=item.node, attempt=item.attempt, message=LOST))
                continue
            end = ending(item.leaf, item.folder, code, deadline_message=item.deadline_message)
            self._record(
                AttemptEnded(
                    at=at, node=item.node, attempt=item.attempt, phase=end.phase, exit_code=code, message=end.message,
                    last_words=end.last_words, outputs=dict(end.outputs),
                )
            )  # fmt: skip

    def _notice_stop(self) -> None:
        run = self._fold.run
        request = None if run.stop_is_forced else self._dir.stop_request()
        if request is not None and (run.stopped_by is None or request.force):
            at = utc_text(_now())
            self._record(StopAsked(at=at, by=request.by, asked_at=request.at, force=request.force))
        run, now = self._fold.run, time.monotonic()
        for item in self._running.values():
            if run.stop_is_forced or len(self._told_to_go) > 1:
                item.kill(now)
            elif (run.stopped_by is not None and not is_exit_node(item.node)) or self._told_to_go:
                item.tell_to_stop(now)

    def _notice_deadlines(self) -> None:
        run, now = self._fold.run, time.monotonic()
        deadline = self._deadline()
        if deadline is not None and run.main_phase is None and not run.deadline_passed and _now() >= deadline:
            self._record(DeadlinePassed(at=utc_text(_now())))
        for item in self._running.values():
            if self._fold.run.deadline_passed and not is_exit_node(item.node) and item.kill_at is None:
                item.deadline_message = WORKFLOW_DEADLINE
                item.tell_to_stop(now)
            item.attend(now, LEAF_DEADLINE)

    def _deadline(self) -> datetime | None:
        seconds, started_at = self._program.deadline_seconds, self._fold.run.clock_started_at
        if seconds is None or started_at is None:
            return None
        return parse_utc(started_at) + timedelta(seconds=seconds)

    # What follows

    def _advance(self) -> None:
        walk = self._walk()
        if self._fold.run.main_phase is None:
            walk.tasks()
            self._start(walk.ready)
            phase = dag_phase(self._program, self._fold.nodes)
            if self._fold.run.stopped_by is not None:  # whatever has succeeded, as in Argo
                phase = "Running" if self._running else "Failed"
            if phase != "Running":
                self._record(MainEnded(at=utc_text(_now()), phase=phase, message=""))
                walk = self._walk()
        if self._fold.run.main_phase is not None:
            self._finish(walk)
        self._wake_at = walk.wake_at

    def _walk(self) -> Walk:
        return Walk(self._program, self._fold, self._record, _now(), self._variables(), self._halt())

    def _finish(self, walk: Walk) -> None:
        handler, run = self._program.exit_handler, self._fold.run
        node = self._fold.nodes.get(handler.node) if handler else None
        is_there = node is not None and node.is_created
        if handler is not None and (is_there or not run.stop_is_forced):
            walk.exit_handler(handler)
            self._start(walk.ready)
            if not self._fold.nodes[handler.node].is_fulfilled:
                return
        end = outcome(run, self._fold.nodes, handler)
        self._record(RunEnded(at=utc_text(_now()), phase=end.phase, message=end.message, exit_code=end.exit_code))
        self._log.info("run ended", phase=end.phase, seen=end.message, exit_code=end.exit_code)

    def _halt(self) -> Halt | None:
        run = self._fold.run
        if run.stopped_by is not None:
            strategy = stop_strategy(run)
            return Halt(
                f"workflow shutdown with strategy: {strategy}", f"Stopped with strategy '{strategy}'",
                spares_exit_handler=not run.stop_is_forced,
            )  # fmt: skip
        if run.deadline_passed:
            return Halt(WORKFLOW_DEADLINE, f"retry exceeded workflow deadline {self._deadline()}", True)
        return None

    def _start(self, ready: list[Ready]) -> None:
        for item in ready:
            if len(self._running) >= self._slots and not is_exit_node(item.node):
                break
            self._start_one(item)

    def _start_one(self, item: Ready) -> None:
        folder = self._dir.path / attempt_folder(item.node, item.attempt)
        try:
            argv, image, given = container_command(item.leaf, item.arguments(), self._variables(), attempt=item.attempt)
            prepare_folder(folder)
            environment = container_environment(
                os.environ, given, folder=folder, stop_path=self._dir.stop_path, node=self._node, image=image
            )
            command = Command(argv, environment, folder, folder / "output.log", folder / "last-words")
            pid = start(command, close_fds=(self._journal.descriptor, self._wake_read, self._wake_write))
        except (OSError, SubstitutionError) as error:
            at, message = utc_text(_now()), f"cannot start: {error}".encode(errors="replace").decode()
            self._record(AttemptStarted(at=at, node=item.node, attempt=item.attempt, pid=0, process_started=None))
            self._record(
                AttemptEnded(
                    at=at, node=item.node, attempt=item.attempt, phase="Error", exit_code=None, message=message
                )
            )
            return
        seconds = item.leaf.template.active_deadline_seconds
        deadline_at = None if seconds is None else time.monotonic() + seconds
        self._running[pid] = Running(item.node, item.attempt, item.leaf, folder, pid, deadline_at)
        self._record(
            AttemptStarted(
                at=utc_text(_now()), node=item.node, attempt=item.attempt, pid=pid, process_started=start_time(pid)
            )
        )

    def _variables(self) -> dict[str, str]:
        run = self._fold.run
        variables = workflow_variables(self._program, run=self._dir.name)
        if run.main_phase is None:
            return variables
        return variables | exit_variables(self._program, run.main_phase, self._fold.nodes, run=self._dir.name)

    # Between

    def _sleep(self) -> None:
        """Until a child ends or a signal comes, at most until the next moment that matters."""
        now, run = time.monotonic(), self._fold.run
        waits = [_STOP_POLL_SECONDS]
        waits += [moment - now for item in self._running.values() if (moment := item.wake_at()) is not None]
        deadline = self._deadline() if run.main_phase is None and not run.deadline_passed else None
        waits += [(moment - _now()).total_seconds() for moment in (self._wake_at, deadline) if moment is not None]
        readable, _, _ = select.select([self._wake_read], [], [], max(0.0, min(waits)))
        if readable:
            os.read(self._wake_read, 4096)

    def _give_up(self, error: ArgosyError) -> int:
        self._log.error(str(error), reason=error.reason, exit_code=int(error.exit_code))
        kill_all(self._running)
        end = RunEnded(at=utc_text(_now()), phase="Error", message=str(error), exit_code=int(error.exit_code))
        try:
            self._journal.append_last(end)
        except ArgosyError as again:
            self._log.error(str(again), reason=again.reason)
        return int(error.exit_code)
