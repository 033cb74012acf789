"""Only who holds the secret gets in, and nobody can alter what is said afterwards."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import pytest

from components.agent.messages import BadMessage, Beat, Progressed, Stop, read_from_node, read_to_node
from components.agent.wire import MAX_FRAME_BYTES, Channel, NotOurs, admit, introduce

SECRET = b"a secret of the gang"

Peer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[object]]


async def meet(coordinator: Peer, agent: Peer) -> tuple[object, object]:
    """Both sides of one connection; an exception is a result."""
    accepted: asyncio.Future[object] = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            accepted.set_result(await coordinator(reader, writer))
        except Exception as error:
            accepted.set_result(error)
        await _close(writer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
    try:
        there = await agent(reader, writer)
    except Exception as error:
        there = error
    await _close(writer)
    here = await asyncio.wait_for(accepted, 10)
    server.close()
    await asyncio.sleep(0)
    return here, there


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


def admitting(secret: bytes = SECRET, gang: str = "g", num_nodes: int = 2) -> Peer:
    return lambda reader, writer: admit(reader, writer, secret=secret, gang=gang, num_nodes=num_nodes)


def introducing(secret: bytes = SECRET, gang: str = "g", node_rank: int = 1) -> Peer:
    return lambda reader, writer: introduce(reader, writer, secret=secret, gang=gang, node_rank=node_rank)


def test_both_sides_with_the_secret_understand_each_other() -> None:
    async def coordinator(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> object:
        admitted = await admit(reader, writer, secret=SECRET, gang="g", num_nodes=2)
        admitted.channel.send(b"hello")
        return admitted.node_rank, await admitted.channel.receive(), await admitted.channel.receive()

    async def agent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> object:
        channel = await introduce(reader, writer, secret=SECRET, gang="g", node_rank=1)
        channel.send(b"")
        channel.send(b"x" * MAX_FRAME_BYTES)
        return await channel.receive()

    here, there = asyncio.run(meet(coordinator, agent))
    assert here == (1, b"", b"x" * MAX_FRAME_BYTES)
    assert there == b"hello"


@pytest.mark.parametrize(
    ("coordinator", "agent", "seen"),
    [
        (admitting(), introducing(secret=b"another secret"), "a wrong secret"),
        (admitting(), introducing(gang="other-gang"), "a wrong secret"),
        (admitting(), introducing(node_rank=5), "node rank 5"),
        (admitting(), introducing(node_rank=0), "node rank 0"),
    ],
)
def test_strangers_are_refused_on_both_sides(coordinator: Peer, agent: Peer, seen: str) -> None:
    here, there = asyncio.run(meet(coordinator, agent))
    assert isinstance(here, NotOurs)
    assert seen in str(here)
    assert isinstance(there, NotOurs)


def test_an_agent_does_not_follow_a_coordinator_without_the_secret() -> None:
    async def impostor(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> object:
        writer.write(b"argosy 1 " + b"0" * 32 + b"\n")
        await reader.readline()
        writer.write(b"f" * 64 + b"\n")
        return None

    _, there = asyncio.run(meet(impostor, introducing()))
    assert isinstance(there, NotOurs)
    assert "another secret" in str(there)


@pytest.mark.parametrize("noise", [b"GET / HTTP/1.1\r\n", b"\x00" * 1000, b"1 2\n", b"-1 a b\n", b"9999999 a b\n"])
def test_garbage_is_refused(noise: bytes) -> None:
    async def stranger(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> object:
        writer.write(noise)
        await writer.drain()
        return await reader.read()

    here, _ = asyncio.run(meet(admitting(), stranger))
    assert isinstance(here, NotOurs)


class _Tampering:
    """Between channel and socket: changes one byte of one frame, or sends a frame twice."""

    def __init__(self, writer: asyncio.StreamWriter, change: Callable[[bytes], bytes]) -> None:
        self._writer, self._change = writer, change

    def write(self, data: bytes) -> None:
        self._writer.write(self._change(data))

    def get_extra_info(self, name: str) -> object:
        return self._writer.get_extra_info(name)


@pytest.mark.parametrize(
    "change",
    [
        lambda frame: frame[:-1] + bytes([frame[-1] ^ 1]),
        lambda frame: frame[:5] + bytes([frame[5] ^ 1]) + frame[6:],
        lambda frame: b"\xff" + frame[1:],
        lambda frame: frame + frame,
    ],
)  # fmt: skip
def test_a_forged_or_repeated_frame_is_noticed(change: Callable[[bytes], bytes]) -> None:
    async def coordinator(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> object:
        admitted = await admit(reader, writer, secret=SECRET, gang="g", num_nodes=2)
        await admitted.channel.receive()
        return await admitted.channel.receive()

    async def agent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> object:
        channel = await introduce(reader, writer, secret=SECRET, gang="g", node_rank=1)
        channel._writer = _Tampering(writer, change)  # type: ignore[assignment]
        channel.send(b"payload")
        await writer.drain()
        return await reader.read()

    here, _ = asyncio.run(meet(coordinator, agent))
    assert isinstance(here, NotOurs)


def test_a_frame_that_is_too_large_is_our_own_bug() -> None:
    async def agent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> object:
        channel: Channel = await introduce(reader, writer, secret=SECRET, gang="g", node_rank=1)
        channel.send(b"x" * (MAX_FRAME_BYTES + 1))
        return None

    _, there = asyncio.run(meet(admitting(), agent))
    assert isinstance(there, ValueError)


def test_messages_read_back_as_they_were() -> None:
    message = Progressed(attempt=1, reports_steps=True, steps={3: 7}, metrics={7: {"loss": 0.5}}, activity=1.5)
    assert read_from_node(message.to_bytes()) == message
    assert read_to_node(Stop().to_bytes()) == Stop()
    assert read_to_node(Beat().to_bytes()) == Beat()


@pytest.mark.parametrize(
    "data", [b"", b"{}", b'{"kind": "start"}', b'{"kind": "beat", "more": 1}', b'{"kind": "stop"}']
)
def test_what_is_no_message_is_refused(data: bytes) -> None:
    with pytest.raises(BadMessage):
        read_from_node(data)
