"""The agent's side of the guard: starts it, speaks JSON lines with it, notices when it is gone."""

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from components.agent.tasks import Tasks
from components.guard import guard
from components.runtime.processes import kill_descendants, signal_name

_HELLO_SECONDS = 30.0
_LEAVE_SECONDS = 5.0
MAX_LINE_BYTES = 1 << 20


class GuardFailed(Exception):
    """The guard could not be started, or is gone."""


class GuardLink:
    """One guard, for as long as the agent lives. `on_message` gets every message, `on_lost` is called at most once."""

    def __init__(
        self, folder: Path, *, on_message: Callable[[dict[str, Any]], None], on_lost: Callable[[str], None],
        tasks: Tasks,
    ) -> None:  # fmt: skip
        self._path, self._on_message, self._on_lost, self._tasks = folder / "guard.sock", on_message, on_lost, tasks
        self._process: subprocess.Popen[bytes] | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._is_leaving = self._is_killed = False

    @property
    def is_there(self) -> bool:
        return self._writer is not None

    async def open(self) -> dict[str, Any]:
        """Start the guard; its hello. Raises GuardFailed. Call in the main thread."""
        connected: asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]]
        connected = asyncio.get_running_loop().create_future()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            peer = writer.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            is_ours = self._process is not None and int.from_bytes(peer[:4], sys.byteorder) == self._process.pid
            if is_ours and not connected.done():
                connected.set_result((reader, writer))
            else:
                writer.close()

        listener = listen(self._path)
        server = await asyncio.start_unix_server(accept, sock=listener, limit=MAX_LINE_BYTES)
        # Not tied to our life by a signal: when we are gone its socket closes, and it needs its own to kill the ranks.
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", guard.__file__, "--socket", str(self._path)],
            stdin=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        try:
            async with asyncio.timeout(_HELLO_SECONDS):
                reader, self._writer = await self._connected_or_dead(connected)
                hello: dict[str, Any] = json.loads(await reader.readline())
        except (TimeoutError, ValueError, OSError) as error:
            raise GuardFailed(f"the guard did not report within {_HELLO_SECONDS:g} s: {self._ending()}") from error
        finally:
            server.close()
        self._tasks.start(self._read(reader))
        return hello

    def send(self, **message: Any) -> None:
        """Nothing happens when the guard is gone; that is reported by `on_lost`."""
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(json.dumps(message).encode() + b"\n")

    async def close(self) -> None:
        """Let the guard kill what is left and go; then make sure of both."""
        self._is_leaving = True
        self.send(type="exit")
        deadline = asyncio.get_running_loop().time() + _LEAVE_SECONDS
        while self._process and self._process.poll() is None and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.01)

    def kill_all(self, keep: frozenset[int]) -> bool:
        """SIGKILL the guard and everything that is, or has become, our descendant. True when nothing is left."""
        self._is_killed = True
        return kill_descendants(os.getpid(), keep=keep)

    async def _connected_or_dead(
        self, connected: "asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]]"
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        while not connected.done():
            if self._process is None or self._process.poll() is not None:
                raise GuardFailed(f"the guard did not start: {self._ending()}")
            await asyncio.wait([connected], timeout=0.05)
        return connected.result()

    async def _read(self, reader: asyncio.StreamReader) -> None:
        while (message := await _next_message(reader)) is not None:
            self._on_message(message)
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
        if not self._is_leaving:
            await asyncio.sleep(0.02)  # it is dying: let it be dead, so that its end can be told
            self._on_lost(f"the guard is gone: {self._ending()}")

    def _ending(self) -> str:
        if self._is_killed:
            return "it did not kill its ranks, so the agent killed it"
        code = self._process.poll() if self._process else None
        if code is None:
            return "its connection closed"
        return f"it exited with code {code}" if code >= 0 else f"it was killed by {signal_name(-code)}"


async def _next_message(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    """None when the guard is gone, or has said something that is not its language."""
    try:
        line = await reader.readline()
        message: dict[str, Any] | None = json.loads(line) if line else None
    except (OSError, ValueError):
        return None
    return message


def listen(path: Path) -> socket.socket:
    """Listen at `path`, which may be longer than the 107 bytes of a socket's address."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        listener.bind(f"/proc/self/fd/{folder}/{path.name}")
        os.chmod(path, 0o600)
    finally:
        os.close(folder)
    return listener
