"""One node of the gang: obeys the coordinator, runs ranks through the guard, publishes what they leave READY."""

import asyncio
import base64
import contextlib
import shutil
import time
from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from components.agent.messages import (
    Check,
    Checked,
    Discard,
    Down,
    Drained,
    Fetch,
    Fetched,
    FromNode,
    GuardLost,
    Kill,
    Published,
    PublishFailed,
    RankExited,
    Start,
    Started,
    StartedRank,
    Stop,
    Terminated,
    ToNode,
    Trouble,
)
from components.agent.node_attempt import NodeAttempt, how_it_ended
from components.agent.node_checks import check_node, device_question, visible_gpus
from components.agent.node_code import NodeCode
from components.agent.node_data import NodeData
from components.agent.node_resume import NodeResume
from components.agent.pod_guard import link_to_guard
from components.agent.publishing import publish_step
from components.agent.ranks import rank_environment
from components.agent.run_context import RunContext
from components.agent.staging import remove_unfinished
from components.agent.tasks import Tasks
from components.contracts.clock import now_text

KILL_GRACE_SECONDS = 0.5
"""Ranks that hang in a collective ignore SIGTERM for many seconds; nothing is worth waiting for after a failure."""

_POLL_SECONDS = 0.2
_USAGE_SECONDS = 5.0
_READINGS_SECONDS = 15.0
_KILLED_SECONDS = 5.0
"""A guard that has not killed its ranks by then is stuck or stopped: the agent does it."""


class Node:
    """Everything on this node but the connection to the coordinator. `emit` gets what the coordinator must know."""

    def __init__(
        self, context: RunContext, *, emit: Callable[[FromNode], None], disk: Executor, tasks: Tasks,
        keep: Callable[[], frozenset[int]],
    ) -> None:  # fmt: skip
        """`disk` runs the slow copies, one at a time; `keep` tells which children are not the guard's."""
        self._context, self._emit, self._disk, self._tasks, self._keep = context, emit, disk, tasks, keep
        self._guard = link_to_guard(context, on_message=self._on_guard, on_lost=self._on_guard_lost, tasks=tasks)
        self._hello: dict[str, Any] = {}
        self._data, self._resume, self._code = NodeData(context), NodeResume(context), NodeCode(context)
        self._attempt: NodeAttempt | None = None
        self._staged: dict[tuple[int, int], Path] = {}
        self._readings: asyncio.Future[dict[str, Any]] | None = None
        self._devices: tuple[int, ...] = ()
        self._publishing: asyncio.Task[None] | None = None
        self._kill_watch: asyncio.TimerHandle | None = None
        self._down_number: int | None = None  # the attempt last reported down

    async def open(self) -> None:
        """Start the guard. Raises GuardFailed."""
        self._hello = hello = await self._guard.open()
        self._context.log.info("the guard is there", pid=hello["pid"], python=hello["python"])
        self._tasks.start(self._poll_forever())

    async def close(self) -> None:
        """Leave no process behind."""
        if self._attempt is not None:
            self._attempt.called_off.set()
        await self._guard.close()
        self._guard.kill_all(self._keep())
        self._data.close()
        self._resume.close()

    def obey(self, message: ToNode) -> None:
        """Do what the coordinator says; Finish is the agent's business."""
        match message:
            case Check():
                self._tasks.start(self._check(message))
            case Fetch():
                self._tasks.start(self._fetch())
            case Start():
                self._start(message)
            case Stop():
                self._stop()
            case Kill() if message.attempt != self._down_number:
                self._kill(message.attempt, message.patience_seconds)
            case Discard(term=term, step=step):
                if (path := self._staged.pop((term, step), None)) is not None:
                    self._disk.submit(shutil.rmtree, path, ignore_errors=True)

    # --- start, stop, kill

    async def _check(self, check: Check) -> None:
        code = await asyncio.to_thread(self._code.fetch)  # first: the program is looked for in it
        self._readings = asyncio.get_running_loop().create_future()
        spec = self._context.spec
        program = {"argv": list(spec.command), "cwd": self._context.program_folder, "env": spec.env}
        self._guard.send(type="readings", devices=device_question(), program=program)
        readings: dict[str, Any] = {}
        with contextlib.suppress(TimeoutError):
            readings = await asyncio.wait_for(self._readings, _READINGS_SECONDS)
        self._devices = visible_gpus(readings)
        results = await asyncio.to_thread(check_node, self._context, check, readings, code)
        self._emit(Checked(results=results))

    async def _fetch(self) -> None:
        self._emit(Fetched(failure=await asyncio.to_thread(self._data.fetch)))

    def _start(self, start: Start) -> None:
        attempt = NodeAttempt(self._context, start)
        try:
            attempt.paths.create()
        except OSError as error:
            text = f"cannot create {attempt.paths.folder}: {error.strerror}"
            self._emit(RankExited(attempt=start.attempt, rank=attempt.processes[0], error=text, at=time.time()))
            return
        self._clean_up(self._attempt)
        self._attempt = attempt
        resume = self._resume.in_place(start.resume_folder)
        if resume is None:
            self._tasks.start(self._fetch_and_launch(attempt, start))
        else:
            self._launch(attempt, start, resume)

    async def _fetch_and_launch(self, attempt: NodeAttempt, start: Start) -> None:
        assert start.resume_folder is not None
        resume = await asyncio.to_thread(self._resume.fetch, start.resume_folder, attempt.called_off)
        if attempt.called_off.is_set():
            return
        if isinstance(resume, Trouble):
            self._emit(Fetched(failure=resume))
        else:
            self._launch(attempt, start, resume)

    def _launch(self, attempt: NodeAttempt, start: Start, resume: str) -> None:
        context, spec = self._context, self._context.spec
        attempt.is_launched = True
        ranks = [
            {
                "rank": process, "argv": list(spec.command), "cwd": context.program_folder,
                "env": rank_environment(
                    spec, start, node_rank=context.node_rank, process=process, paths=attempt.paths,
                    data=self._data.path, resume=resume, devices=self._devices,
                    inherited=self._hello["variables"], num_cores=int(self._hello["cores"]),
                ),
            }
            for process in attempt.processes
        ]  # fmt: skip
        context.log.info(f"attempt {start.attempt}: starting", term=start.term, attempt=start.attempt, resume=resume)
        self._guard.send(type="start", attempt=start.attempt, ranks=ranks)

    def _clean_up(self, earlier: NodeAttempt | None) -> None:
        """What an earlier attempt left half-written is of no use to anybody."""
        if earlier is not None:
            kept = frozenset(self._staged.values())
            self._disk.submit(remove_unfinished, earlier.paths.checkpoints, kept)

    def _stop(self) -> None:
        if self._attempt is None:
            return
        self._context.log.info("stopping: the ranks may save their work", attempt=self._attempt.number)
        try:
            self._attempt.paths.stop_file.touch()
        except OSError as error:
            self._context.log.warning("cannot create the stop file; SIGTERM must do", seen=str(error))
        self._guard.send(type="signal", signal="SIGTERM")

    def _kill(self, number: int, patience_seconds: float) -> None:
        attempt = self._attempt
        if attempt is not None and attempt.number == number:
            attempt.called_off.set()
        if not self._guard.is_there or attempt is None or attempt.number != number or not attempt.is_launched:
            self._down(number)
            return
        self._guard.send(type="kill", grace_seconds=KILL_GRACE_SECONDS, patience_seconds=patience_seconds)
        if self._kill_watch is None:
            loop, seconds = asyncio.get_running_loop(), patience_seconds + _KILLED_SECONDS
            self._kill_watch = loop.call_later(seconds, self._kill_ourselves)

    def _kill_ourselves(self) -> None:
        self._context.log.warning("the guard does not kill its ranks: the agent does, and the guard with them")
        self._guard.kill_all(self._keep())  # then the guard's connection closes, which says the rest

    def _down(self, number: int) -> None:
        if self._down_number == number:
            return
        self._down_number = number
        if self._kill_watch is not None:
            self._kill_watch.cancel()
            self._kill_watch = None
        self._emit(Down(attempt=number))
        self._tasks.start(self._drain(number))

    async def _drain(self, number: int) -> None:
        """A mark set in the last moment counts: the files were there before it."""
        if self._attempt is not None:
            self._look_for_ready(self._attempt)
        while self._publishing is not None:
            await asyncio.wait([self._publishing])
        self._emit(Drained(attempt=number))

    # --- what the guard says

    def _on_guard(self, message: dict[str, Any]) -> None:
        attempt = self._attempt
        match message["type"]:
            case "readings" if self._readings is not None and not self._readings.done():
                self._readings.set_result({key: value for key, value in message.items() if key != "type"})
            case "terminated":
                self._emit(Terminated())
            case "usage" if attempt is not None:
                attempt.cpu_seconds = message["cpu_seconds"]
            case "output" if attempt is not None:
                attempt.on_output(message["rank"], message["stream"], base64.b64decode(message["data"]), at=now_text())
            case "started":
                ranks = tuple(StartedRank(rank=item["rank"], pid=item["pid"]) for item in message["ranks"])
                self._emit(Started(attempt=message["attempt"], ranks=ranks))
            case "exited" if attempt is not None:
                self._on_exit(attempt, message)
            case "killed" if attempt is not None:
                attempt.end_output(at=now_text())
                self._report_progress(attempt)
                self._down(message["attempt"])

    def _on_exit(self, attempt: NodeAttempt, message: dict[str, Any]) -> None:
        self._report_progress(attempt)  # the last step counts, also when it is written just before the end
        exited = RankExited(
            attempt=message["attempt"], rank=message["rank"], exit_code=message.get("exit_code"),
            signal=message.get("signal"), error=message.get("error"), ended_by_us=message.get("ended_by_us", False),
            at=message["at"], last_lines=attempt.last_lines(message["rank"]),
        )  # fmt: skip
        level = self._context.log.info if exited.exit_code == 0 or exited.ended_by_us else self._context.log.error
        level(how_it_ended(exited), rank=exited.rank, attempt=exited.attempt)
        self._emit(exited)

    def _on_guard_lost(self, why: str) -> None:
        self._context.log.error(f"{why}; killing its ranks")
        is_clean = self._guard.kill_all(self._keep())
        self._emit(GuardLost(message=why if is_clean else f"{why}; some of its processes survive SIGKILL"))
        if self._attempt is not None:
            self._attempt.end_output(at=now_text())
            self._down(self._attempt.number)

    # --- every now and then

    async def _poll_forever(self) -> None:
        loop = asyncio.get_running_loop()
        usage_at = loop.time()
        while True:
            await asyncio.sleep(_POLL_SECONDS)
            if (attempt := self._attempt) is not None:
                self._report_progress(attempt)
                self._look_for_ready(attempt)
                if not attempt.reports_steps and loop.time() >= usage_at:
                    usage_at = loop.time() + _USAGE_SECONDS
                    self._guard.send(type="usage")

    def _report_progress(self, attempt: NodeAttempt) -> None:
        if (progressed := attempt.poll_progress(at=now_text())) is not None:
            self._emit(progressed)

    def _look_for_ready(self, attempt: NodeAttempt) -> None:
        for step, path in attempt.staging.poll():
            self._staged[attempt.term, step] = path
            attempt.unpublished.append((step, path))
        if attempt.unpublished and self._publishing is None:
            self._publishing = self._tasks.start(self._publish(attempt))

    async def _publish(self, attempt: NodeAttempt) -> None:
        loop = asyncio.get_running_loop()
        try:
            while attempt.unpublished:
                step, path = attempt.unpublished.pop(0)
                trouble = await loop.run_in_executor(self._disk, publish_step, self._context, attempt.term, step, path)
                if trouble is None:
                    self._emit(Published(term=attempt.term, step=step))
                else:
                    self._context.log.error(f"step {step} cannot be published: {trouble.message}", step=step)
                    self._emit(PublishFailed(term=attempt.term, step=step, trouble=trouble))
        finally:
            self._publishing = None
