"""The coordinator's door: lets in who proves to belong to the gang, and notices who leaves or falls silent."""

import asyncio
import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from components.agent.addresses import is_loopback
from components.agent.events import Event, Heard, Lost
from components.agent.messages import BadMessage, Beat, Joined, RankExited, ToNode, read_from_node
from components.agent.peer_clock import PeerClock
from components.agent.run_context import RunContext
from components.agent.tasks import Tasks
from components.agent.wire import Channel, NotOurs, admit
from components.errors import NodeUnfit

BEAT_SECONDS = 1.0
SILENCE_SECONDS = 15.0
"""Between processes of a busy machine the largest gap seen was 0.7 s, but in pods with small shares of a machine with
25 busy processes a core more than 5 s. What dies closes its connection and is noticed at once; this is for cables."""

_MAX_STRANGERS = 64
_MAX_UNSENT_BYTES = 16 << 20
_MAX_COMPLAINTS = 20


@dataclass
class _Member:
    channel: Channel
    heard_at: float
    clock: PeerClock = field(default_factory=PeerClock)


class Hub:
    """Connections of agent 0 to all other agents. `on_event` gets Heard and Lost."""

    def __init__(self, context: RunContext, *, secret: bytes, on_event: Callable[[Event], None], tasks: Tasks) -> None:
        self._context, self._secret, self._on_event, self._tasks = context, secret, on_event, tasks
        self._members: dict[int, _Member] = {}
        self._server: asyncio.Server | None = None
        self._num_strangers = self._num_complaints = 0

    async def open(self) -> None:
        """Listen, and say where, when the port was not given. Raises NodeUnfit."""
        spec = self._context.spec
        if spec.num_nodes == 1:
            return
        host = spec.coordinator_host
        try:
            self._server = await asyncio.start_server(
                self._accept, host if is_loopback(host) else None, spec.coordinator_port, backlog=1024
            )
            if spec.coordinator_file:
                port = self._server.sockets[0].getsockname()[1]
                announce(Path(spec.coordinator_file), f"{host}:{port}")
        except OSError as error:
            where = f"{host}:{spec.coordinator_port or 'any'}"
            raise NodeUnfit("NoDoor", f"the agents cannot meet at {where}: {error}", "free that port") from error
        self._tasks.start(self._beat_forever())

    def send(self, node_rank: int, message: ToNode | Beat) -> None:
        """Nothing happens when the node is gone."""
        if (member := self._members.get(node_rank)) is not None:
            member.channel.send(message.to_bytes())

    async def close(self) -> None:
        """Let what was sent arrive, as far as that takes no time."""
        if self._server is not None:
            self._server.close()
        for member in list(self._members.values()):
            try:
                async with asyncio.timeout(1):
                    await member.channel.drain()
            except (TimeoutError, OSError):
                continue
            member.channel.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._num_strangers >= _MAX_STRANGERS:
            writer.close()
            return
        self._num_strangers += 1
        where = _where(writer)
        try:
            admitted = await admit(
                reader, writer, secret=self._secret, gang=self._context.gang, num_nodes=self._context.spec.num_nodes
            )
        except NotOurs as error:
            self._complain(f"a connection from {where} was refused: {error}")
            writer.close()
            return
        finally:
            self._num_strangers -= 1
        if admitted.node_rank in self._members:
            self._complain(f"a second agent of node {admitted.node_rank} from {where} was refused")
            writer.close()
            return
        await self._listen(admitted.node_rank, admitted.channel)

    async def _listen(self, node_rank: int, channel: Channel) -> None:
        loop = asyncio.get_running_loop()
        member = self._members[node_rank] = _Member(channel, loop.time())
        channel.send(Beat(at=time.time()).to_bytes())
        why = "its connection closed"
        try:
            while True:
                message = read_from_node(await channel.receive())
                member.heard_at = loop.time()
                if isinstance(message, Joined):
                    message = message.model_copy(update={"probe_host": channel.peer_host})
                if isinstance(message, RankExited):
                    at, within = member.clock.here(message.at)
                    message = message.model_copy(update={"at": at, "within": within})
                if not isinstance(message, Beat):
                    self._on_event(Heard(node_rank, message))
                elif message.answers is not None and message.at is not None:
                    member.clock.on_answer(asked_at=message.answers, answered_at=message.at, now=time.time())
        except EOFError:
            pass
        except (NotOurs, BadMessage) as error:
            why = f"it sent what it should not: {error}"
        channel.close()
        self._leave(node_rank, member, why)

    def _leave(self, node_rank: int, member: _Member, why: str) -> None:
        if self._members.get(node_rank) is member:
            del self._members[node_rank]
            self._on_event(Lost(node_rank, why))

    async def _beat_forever(self) -> None:
        loop = asyncio.get_running_loop()
        last = loop.time()
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            now = loop.time()
            if now - last > 2 * BEAT_SECONDS:  # we were stopped or starved: that is no silence of theirs
                for member in self._members.values():
                    member.heard_at = max(member.heard_at, now - SILENCE_SECONDS / 2)
            last = now
            for node_rank, member in list(self._members.items()):
                if now - member.heard_at > SILENCE_SECONDS:
                    self._drop(node_rank, member, f"silent for {SILENCE_SECONDS:g} s")
                elif member.channel.unsent_bytes > _MAX_UNSENT_BYTES:
                    self._drop(node_rank, member, "it does not read what it is sent")
                else:
                    member.channel.send(Beat(at=time.time()).to_bytes())

    def _drop(self, node_rank: int, member: _Member, why: str) -> None:
        self._leave(node_rank, member, why)
        member.channel.close()

    def _complain(self, text: str) -> None:
        self._num_complaints += 1
        if self._num_complaints <= _MAX_COMPLAINTS:
            self._context.log.warning(text)


def announce(path: Path, text: str) -> None:
    """Write a small file so that readers see all of it or nothing."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text + "\n")
    os.replace(temporary, path)


def _where(writer: asyncio.StreamWriter) -> str:
    peer = writer.get_extra_info("peername")
    return f"{peer[0]}:{peer[1]}" if peer else socket.gethostname()
