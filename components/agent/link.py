"""Every other agent's way to the coordinator: finds it, proves itself, and notices when it is gone."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from components.agent.hub import BEAT_SECONDS, SILENCE_SECONDS
from components.agent.messages import BadMessage, Beat, FromNode, ToNode, read_to_node
from components.agent.run_context import RunContext
from components.agent.tasks import Tasks
from components.agent.wire import Channel, NotOurs, introduce
from components.errors import PeerLost

_RETRY_SECONDS = 0.1
_CONNECT_SECONDS = 5.0


class Link:
    """One connection. `on_message` gets what the coordinator says, `on_lost` is called once when it is gone."""

    def __init__(
        self, context: RunContext, *, secret: bytes, on_message: Callable[[ToNode], None],
        on_lost: Callable[[str], None], tasks: Tasks,
    ) -> None:  # fmt: skip
        self._context, self._secret = context, secret
        self._on_message, self._on_lost, self._tasks = on_message, on_lost, tasks
        self._channel: Channel | None = None
        self._heard_at = 0.0

    async def open(self) -> None:
        """Connect, for as long as the start limit allows. Raises PeerLost."""
        seconds, seen = self._context.spec.limits.start_seconds, "it was never announced"
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while loop.time() < deadline:
            address = self._address()
            if address is not None:
                try:
                    self._channel = await self._connect(*address)
                    break
                except (OSError, TimeoutError, NotOurs) as error:
                    text = f"{address[0]}:{address[1]}: {error or type(error).__name__}"
                    if isinstance(error, NotOurs) and text != seen:
                        self._context.log.warning(f"no coordinator at {text}")
                    seen = text
            await asyncio.sleep(_RETRY_SECONDS)
        if self._channel is None:
            raise PeerLost("NoCoordinator", f"agent 0 could not be joined within {seconds:g} s ({seen})")
        self._heard_at = loop.time()
        self._tasks.start(self._listen(self._channel))
        self._tasks.start(self._beat_forever(self._channel))

    def send(self, message: FromNode | Beat) -> None:
        if self._channel is not None:
            self._channel.send(message.to_bytes())

    def _address(self) -> tuple[str, int] | None:
        spec = self._context.spec
        if not spec.coordinator_file:
            return spec.coordinator_host, spec.coordinator_port
        try:
            host, _, port = Path(spec.coordinator_file).read_text().strip().rpartition(":")
            return host, int(port)
        except (OSError, ValueError):
            return None

    async def _connect(self, host: str, port: int) -> Channel:
        async with asyncio.timeout(_CONNECT_SECONDS):
            reader, writer = await asyncio.open_connection(host, port)
        try:
            return await introduce(
                reader, writer, secret=self._secret, gang=self._context.gang, node_rank=self._context.node_rank
            )
        except NotOurs:
            writer.close()
            raise

    async def _listen(self, channel: Channel) -> None:
        loop = asyncio.get_running_loop()
        why = "its connection closed"
        try:
            while True:
                message = read_to_node(await channel.receive())
                self._heard_at = loop.time()
                if isinstance(message, Beat):
                    channel.send(Beat(at=time.time(), answers=message.at).to_bytes())
                else:
                    self._on_message(message)
        except EOFError:
            pass
        except (NotOurs, BadMessage) as error:
            why = f"it sent what it should not: {error}"
        self._lose(why)

    async def _beat_forever(self, channel: Channel) -> None:
        loop = asyncio.get_running_loop()
        last = loop.time()
        while self._channel is channel:
            channel.send(Beat().to_bytes())
            await asyncio.sleep(BEAT_SECONDS)
            now = loop.time()
            if now - last > 2 * BEAT_SECONDS:  # we were stopped or starved: that is no silence of its
                self._heard_at = max(self._heard_at, now - SILENCE_SECONDS / 2)
            last = now
            if now - self._heard_at > SILENCE_SECONDS:
                self._lose(f"silent for {SILENCE_SECONDS:g} s")

    def _lose(self, why: str) -> None:
        if self._channel is not None:
            channel, self._channel = self._channel, None
            channel.close()
            self._on_lost(f"agent 0 is gone: {why}")
