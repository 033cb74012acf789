"""Agent 0: runs the coordinator, does what it decides, keeps the gang's state in the store, and is a node as well."""

import asyncio
import contextlib
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial

from components.agent.coordinator import Coordinator, Phase
from components.agent.events import (
    Action,
    CommitStep,
    Event,
    Heard,
    Moment,
    Prepare,
    Retain,
    Tell,
    Tick,
    VerifyStep,
)  # fmt: skip
from components.agent.gang_view import gang_state
from components.agent.guard_link import GuardFailed
from components.agent.hub import Hub
from components.agent.messages import Finish, FromNode, GuardLost, Progressed, Terminated
from components.agent.node import Node
from components.agent.publishing import catch_up, commit_step, prepare_start
from components.agent.run_context import RunContext
from components.agent.services import Services
from components.agent.upkeep import Upkeep
from components.contracts.gang import GangState
from components.contracts.layout import gang_state_key
from components.contracts.lifecycle import RunState
from components.errors import ArgosyError

_TICK_SECONDS = 0.2
_MIN_WRITE_SECONDS = 0.2
_LAST_WRITE_SECONDS = 10.0


class Lead:
    """The agent of node 0."""

    def __init__(self, context: RunContext, *, secret: bytes) -> None:
        self._context, self._services = context, Services(context)
        self._coordinator = Coordinator(context.spec, now=_now())
        self._loop = asyncio.get_running_loop()
        tasks = self._services.tasks
        self._hub = Hub(context, secret=secret, on_event=self._on_event, tasks=tasks)
        self._upkeep = Upkeep(context, context.spec.checkpoint) if context.spec.checkpoint else None
        self._node = Node(
            context, emit=self._on_own_node, disk=self._services.disk, tasks=tasks,
            keep=lambda: self._upkeep.pids if self._upkeep else frozenset(),
        )  # fmt: skip
        self._ledger, self._state = ThreadPoolExecutor(1, "ledger"), ThreadPoolExecutor(1, "state")
        self._is_news = asyncio.Event()

    async def run(self) -> int:
        """From the start to the verdict. Nothing of this node runs any more when it returns."""
        self._services.start(on_sigterm=lambda: self._on_event(Heard(0, Terminated())))
        tasks = self._services.tasks
        try:
            await self._hub.open()
            tasks.start(self._tick_forever())
            tasks.start(self._write_forever())
            await self._join()
            code = await self._services.exit_code
        finally:
            await self._hub.close()
            if self._upkeep is not None:
                self._upkeep.kill()
            await self._node.close()
            await self._write_last()
            await self._services.stop()
        return code

    async def _join(self) -> None:
        joined = await self._services.introduction()
        try:
            await self._node.open()
        except GuardFailed as error:
            self._on_event(Heard(0, GuardLost(message=str(error))))
        else:
            self._on_event(Heard(0, joined))

    # --- events in, actions out

    def _on_own_node(self, message: FromNode) -> None:
        # On a later turn of the loop, as from any other node: never inside a call to that node.
        self._loop.call_soon(self._on_event, Heard(0, message))

    def _on_event(self, event: Event) -> None:
        if self._services.exit_code.done():
            return
        coordinator = self._coordinator
        before = coordinator.phase
        for action in coordinator.handle(event, _now()):
            self._do(action)
        for warning in coordinator.take_warnings():
            self._context.log.warning(warning)
        if coordinator.phase is not before:
            self._log_phase(coordinator.phase)
        is_small = isinstance(event, Tick) or (isinstance(event, Heard) and isinstance(event.message, Progressed))
        if not is_small or coordinator.phase is not before:
            self._is_news.set()
        if coordinator.verdict is not None:
            self._services.leave(coordinator.verdict.exit_code_of(0))

    def _do(self, action: Action) -> None:
        match action:
            case Tell(node_rank, message):
                targets = range(self._context.spec.num_nodes) if node_rank is None else (node_rank,)
                for target in targets:
                    if target != 0:
                        self._hub.send(target, message)
                    elif not isinstance(message, Finish):
                        self._loop.call_soon(self._node.obey, message)
            case Prepare():
                self._services.tasks.start(self._prepare(action))
            case CommitStep():
                self._services.tasks.start(self._commit(action))
            case VerifyStep():
                self._services.tasks.start(self._verify(action))
            case Retain():
                self._services.tasks.start(self._retain(action))

    async def _prepare(self, action: Prepare) -> None:
        work = partial(prepare_start, self._context, action, restarts_before=self._coordinator.restarts_used)
        self._on_event(await self._loop.run_in_executor(self._ledger, work))

    async def _commit(self, action: CommitStep) -> None:
        self._on_event(await self._loop.run_in_executor(self._ledger, commit_step, self._context, action))

    async def _verify(self, action: VerifyStep) -> None:
        assert self._upkeep is not None
        self._on_event(await self._upkeep.verify(action))
        self._loop.run_in_executor(self._ledger, catch_up, self._context)

    async def _retain(self, action: Retain) -> None:
        assert self._upkeep is not None
        self._on_event(await self._upkeep.retain(action))
        self._loop.run_in_executor(self._ledger, catch_up, self._context)

    async def _tick_forever(self) -> None:
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            self._on_event(Tick())

    def _log_phase(self, phase: Phase) -> None:
        verdict, attempt = self._coordinator.verdict, self._coordinator.attempt
        if verdict is None:
            self._context.log.info(f"gang: {phase.value}", attempt=attempt.number if attempt else None)
            return
        self._services.log_verdict(
            exit_code=int(verdict.exit_code), reason=verdict.reason, message=verdict.message
        )  # fmt: skip

    # --- the state people see

    async def _write_forever(self) -> None:
        has_complained = False
        while True:
            with contextlib.suppress(TimeoutError):  # then it is time for the steps made meanwhile
                await asyncio.wait_for(self._is_news.wait(), self._context.spec.flush_seconds)
            self._is_news.clear()
            error = await self._loop.run_in_executor(self._state, self._write, gang_state(self._coordinator, _now()))
            if error is not None and not has_complained:
                self._context.log.warning("the gang's state cannot be written now", seen=str(error))
            has_complained = error is not None
            await asyncio.sleep(_MIN_WRITE_SECONDS)

    async def _write_last(self) -> None:
        """The verdict, if the store takes it; the launcher has our exit code in any case."""
        state = gang_state(self._coordinator, _now())
        if state.exit_code is None and self._services.exit_code.done():
            ending = {"exit_code": self._services.exit_code.result(), "reason": "AgentBug", "state": RunState.FAILED}
            state = state.model_copy(update=ending)
        try:
            async with asyncio.timeout(_LAST_WRITE_SECONDS):
                await self._loop.run_in_executor(self._state, self._write, state)
        except TimeoutError:
            self._context.log.warning(f"the last state was not written within {_LAST_WRITE_SECONDS:g} s")

    def _write(self, state: GangState) -> ArgosyError | None:
        spec = self._context.spec
        try:
            self._context.store.replace(gang_state_key(spec.run, generation=spec.generation), state.to_bytes())
        except ArgosyError as error:
            return error
        return None


def _now() -> Moment:
    return Moment(time.monotonic(), datetime.now(UTC))
