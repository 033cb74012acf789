"""Every agent but agent 0: a node, and a connection to the coordinator without which it must not run anything."""

import asyncio

from components.agent.guard_link import GuardFailed
from components.agent.link import Link
from components.agent.messages import Finish, GuardLost, Terminated, ToNode
from components.agent.node import Node
from components.agent.run_context import RunContext
from components.agent.services import Services
from components.errors import ExitCode, PeerLost


class Follow:
    """The agent of a node above 0."""

    def __init__(self, context: RunContext, *, secret: bytes) -> None:
        self._context, self._services = context, Services(context)
        tasks = self._services.tasks
        self._link = Link(context, secret=secret, on_message=self._on_message, on_lost=self._on_lost, tasks=tasks)
        self._node = Node(context, emit=self._link.send, disk=self._services.disk, tasks=tasks, keep=frozenset)
        self._has_joined = False

    async def run(self) -> int:
        """From the start to the exit code. Nothing of this node runs any more when it returns."""
        self._services.start(on_sigterm=self._on_sigterm)
        try:
            joining = self._services.tasks.start(self._join())
            code = await self._services.exit_code
            joining.cancel()
        finally:
            await self._node.close()
            await self._services.stop()
        return code

    async def _join(self) -> None:
        joined = await self._services.introduction()
        try:
            _, failure = await asyncio.gather(self._link.open(), self._open_node())
        except PeerLost as error:
            self._context.log.error(str(error), reason=error.reason)
            self._services.leave(error.exit_code)
            return
        self._has_joined = True
        self._link.send(joined if failure is None else GuardLost(message=failure))

    async def _open_node(self) -> str | None:
        """Why the guard is not there, or None."""
        try:
            await self._node.open()
        except GuardFailed as error:
            return str(error)
        return None

    def _on_message(self, message: ToNode) -> None:
        if not isinstance(message, Finish):
            self._node.obey(message)
            return
        self._services.log_verdict(
            exit_code=message.exit_code, reason=message.reason, message=message.message
        )  # fmt: skip
        self._services.leave(message.exit_code)

    def _on_lost(self, why: str) -> None:
        """Without the coordinator nobody may train: another generation may be on its way."""
        if self._services.exit_code.done():
            return
        self._context.log.error(f"{why}; this node's ranks are killed", reason="CoordinatorLost")
        self._services.leave(ExitCode.PEER_LOST)

    def _on_sigterm(self) -> None:
        if self._has_joined:
            self._link.send(Terminated())
        else:
            self._context.log.info("stopped before it joined")
            self._services.leave(ExitCode.STOPPED)
