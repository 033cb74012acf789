"""What every agent has, whether it leads or follows: worker threads, log uploads, signals, one way to leave."""

import asyncio
import os
import signal
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from components.agent.addresses import listen_at
from components.agent.messages import Joined
from components.agent.run_context import RunContext
from components.agent.tasks import Tasks
from components.checks.pairs import answer
from components.errors import ExitCode

_LAST_UPLOAD_SECONDS = 10.0


class Services:
    """For the life of one agent, inside its event loop."""

    def __init__(self, context: RunContext) -> None:
        self.context = context
        self.tasks = Tasks(self.on_bug)
        self.exit_code: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        # A thread each, so that a slow checkpoint delays no log, and order is kept.
        self.disk = ThreadPoolExecutor(1, "disk")
        self._logs = ThreadPoolExecutor(1, "logs")
        self._has_complained = False
        self._door: asyncio.Server | None = None

    def start(self, *, on_sigterm: Callable[[], None]) -> None:
        """Begin; from now on nothing that goes wrong is silent."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, found: self.on_bug(found.get("exception") or RuntimeError(str(found))))
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # they are meant for whoever started us, who will say what to do
        loop.add_signal_handler(signal.SIGTERM, self._on_sigterm, on_sigterm)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        self.tasks.start(self._upload_forever())

    def _on_sigterm(self, handler: Callable[[], None]) -> None:
        pod = self.context.pod
        if pod is not None:
            pod.told_to_go = True
            if pod.connection is not None:
                return  # the program's container has ended, as the guard's connection tells; a stop comes through it
        handler()

    async def stop(self) -> None:
        """End all tasks and upload what is left of the logs."""
        self.tasks.cancel()
        try:
            async with asyncio.timeout(_LAST_UPLOAD_SECONDS):
                await self._upload()
        except TimeoutError:
            self.context.log.warning(f"the last log lines were not uploaded within {_LAST_UPLOAD_SECONDS:g} s")

    def leave(self, code: int) -> None:
        """The first verdict counts."""
        if not self.exit_code.done():
            self.exit_code.set_result(int(code))

    def log_verdict(self, *, exit_code: int, reason: str, message: str) -> None:
        """How the gang ended, as agent 0 says."""
        log = self.context.log.error if exit_code else self.context.log.info
        log(f"gang: {reason}: {message}" if message else f"gang: {reason}", reason=reason, exit_code=exit_code)
        if self.context.pod is not None:
            self.context.pod.words = f"{reason}: {message}" if message else reason

    def on_bug(self, error: BaseException) -> None:
        text = "".join(traceback.format_exception(error))
        self.context.log.error(f"Bug: {type(error).__name__}: {error}", reason="Bug", traceback=text)
        self.leave(ExitCode.BUG)

    async def introduction(self) -> Joined:
        """What this agent joins with; from now on its probe port answers."""
        host = self.context.spec.coordinator_host
        self._door = await asyncio.start_server(answer, sock=listen_at(host))
        port = self._door.sockets[0].getsockname()[1]
        return Joined(host=self.context.node, pid=os.getpid(), probe_host=host, probe_port=port)

    async def _upload_forever(self) -> None:
        while True:
            await asyncio.sleep(self.context.spec.flush_seconds)
            await self._upload()

    async def _upload(self) -> None:
        error = await asyncio.get_running_loop().run_in_executor(self._logs, self.context.streams.upload)
        if error is not None and not self._has_complained:
            self.context.log.warning("logs cannot be uploaded now; they are kept here until they can", seen=str(error))
        self._has_complained = error is not None
