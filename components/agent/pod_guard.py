"""The agent's side of a guard in the program's container: it comes to us, and no signal reaches it from here."""

import asyncio
import json
import os
import socket
import sys
from collections.abc import Callable
from typing import Any

from components.agent.guard_link import MAX_LINE_BYTES, GuardFailed, GuardLink, listen
from components.agent.pod import PodSide
from components.agent.run_context import RunContext
from components.agent.tasks import Tasks
from components.contracts.units import format_duration

MIN_PYTHON = (3, 8)

_LEAVE_SECONDS = 5.0


class PodGuardLink(GuardLink):
    """One guard, for as long as the pod lives."""

    def __init__(
        self, pod: PodSide, *, on_message: Callable[[dict[str, Any]], None], on_lost: Callable[[str], None],
        tasks: Tasks, wait_seconds: float,
    ) -> None:  # fmt: skip
        """`wait_seconds`: the program's image may still have to be pulled."""
        super().__init__(pod.guard_socket.parent, on_message=self._receive, on_lost=on_lost, tasks=tasks)
        self._pod, self._pass_on, self._wait_seconds = pod, on_message, wait_seconds
        self._is_down = asyncio.Event()

    async def open(self) -> dict[str, Any]:
        """Wait for the guard; its hello. Raises GuardFailed."""
        connected: asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]]
        connected = asyncio.get_running_loop().create_future()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if _peer_uid(writer) == os.getuid() and not connected.done():
                connected.set_result((reader, writer))
            else:
                writer.close()

        server = await asyncio.start_unix_server(accept, sock=listen(self._pod.guard_socket), limit=MAX_LINE_BYTES)
        try:
            async with asyncio.timeout(self._wait_seconds):
                reader, self._writer = await connected
                hello: dict[str, Any] = json.loads(await reader.readline())
        except (TimeoutError, ValueError, OSError) as error:
            limit = format_duration(self._wait_seconds)
            raise GuardFailed(f"the program's container did not report within {limit}") from error
        finally:
            server.close()
        self._pod.connection = socket.socket(fileno=os.dup(self._writer.get_extra_info("socket").fileno()))
        if tuple(int(part) for part in hello["python"].split(".")[:2]) < MIN_PYTHON:
            raise GuardFailed(f"the program's image has python3 {hello['python']}; it needs 3.8 or newer")
        self._tasks.start(self._read(reader))
        return hello

    async def close(self) -> None:
        """No rank is left. The guard itself stays until the verdict is handed over."""
        self._is_leaving = True
        if not self.is_there:
            return
        self.send(type="kill", grace_seconds=0.0)
        try:
            async with asyncio.timeout(_LEAVE_SECONDS):
                await self._is_down.wait()
        except TimeoutError:
            self._pod.hang_up()  # it is stuck: the kubelet will end it

    def kill_all(self, keep: frozenset[int]) -> bool:
        """The ranks are the guard's: without its connection it kills them. Our own children we kill ourselves."""
        if not self._is_leaving:
            self._pod.hang_up()
        return super().kill_all(keep)

    def _receive(self, message: dict[str, Any]) -> None:
        if not self._is_leaving:
            self._pass_on(message)
        elif message["type"] == "killed":
            self._is_down.set()

    def _ending(self) -> str:
        return "its connection closed: the program's container ended, or it was killed"


def _peer_uid(writer: asyncio.StreamWriter) -> int:
    credentials: bytes = writer.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int.from_bytes(credentials[4:8], sys.byteorder)


def link_to_guard(
    context: RunContext, *, on_message: Callable[[dict[str, Any]], None], on_lost: Callable[[str], None], tasks: Tasks
) -> GuardLink:
    """The guard of this node: a child of ours, or in a pod whoever calls from the program's container."""
    if context.pod is None:
        return GuardLink(context.workdir, on_message=on_message, on_lost=on_lost, tasks=tasks)
    wait_seconds = context.spec.limits.start_seconds
    return PodGuardLink(context.pod, on_message=on_message, on_lost=on_lost, tasks=tasks, wait_seconds=wait_seconds)
