"""How agents recognise each other, and frames nobody else can forge.

The coordinator speaks first. Nothing is read from a peer but two short lines before both sides have proved that they
hold the gang's secret; the secret itself never travels.

    coordinator -> agent   argosy 1 <nonce c>
    agent -> coordinator   <node rank> <nonce a> <HMAC(secret, agent | gang | node rank | c | a)>
    coordinator -> agent   <HMAC(secret, coordinator | gang | node rank | c | a)>

After that each frame is: length (4 bytes), HMAC(session key, direction | count | payload), payload. The count makes a
replayed or reordered frame as visible as a forged one.
"""

import asyncio
import hashlib
import hmac
import secrets
import socket
from dataclasses import dataclass

MAX_FRAME_BYTES = 4 << 20
HANDSHAKE_SECONDS = 5.0
_MAX_LINE_BYTES = 256
_GREETING = b"argosy 1"
_MAC_BYTES = 32


class NotOurs(Exception):
    """The peer did not prove that it belongs to this gang, or a frame of it was tampered with."""


class Channel:
    """An authenticated connection."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, key: bytes, is_coordinator: bool
    ) -> None:
        self._reader, self._writer, self._key = reader, writer, key
        self._here, self._there = (b"coordinator", b"agent") if is_coordinator else (b"agent", b"coordinator")
        self._num_sent = self._num_received = 0
        if (connection := writer.get_extra_info("socket")) is not None:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    @property
    def unsent_bytes(self) -> int:
        return self._writer.transport.get_write_buffer_size()

    @property
    def peer_host(self) -> str:
        return str(self._writer.get_extra_info("peername")[0])

    def send(self, payload: bytes) -> None:
        """Queue a frame; a peer that does not read is noticed by its silence, and by `unsent_bytes`."""
        if len(payload) > MAX_FRAME_BYTES:
            raise ValueError(f"a frame of {len(payload)} bytes; at most {MAX_FRAME_BYTES}")
        mac = self._mac(self._here, self._num_sent, payload)
        self._num_sent += 1
        self._writer.write(len(payload).to_bytes(4, "big") + mac + payload)

    async def receive(self) -> bytes:
        """The next frame. Raises NotOurs for a forged one, EOFError when the connection is closed."""
        try:
            header = await self._reader.readexactly(4 + _MAC_BYTES)
            length = int.from_bytes(header[:4], "big")
            if length > MAX_FRAME_BYTES:
                raise NotOurs(f"a frame of {length} bytes")
            payload = await self._reader.readexactly(length)
        except (asyncio.IncompleteReadError, OSError) as error:
            raise EOFError("the connection is closed") from error
        if not hmac.compare_digest(self._mac(self._there, self._num_received, payload), header[4:]):
            raise NotOurs("a frame with a wrong code")
        self._num_received += 1
        return payload

    def close(self) -> None:
        self._writer.close()

    async def drain(self) -> None:
        """Wait until what was sent is on its way."""
        await self._writer.drain()

    def _mac(self, direction: bytes, count: int, payload: bytes) -> bytes:
        return _mac(self._key, direction, b"%d" % count, payload)


@dataclass(frozen=True)
class Admitted:
    """A peer that proved itself."""

    node_rank: int
    channel: Channel


async def admit(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, secret: bytes, gang: str, num_nodes: int
) -> Admitted:
    """The coordinator's side of the handshake. Raises NotOurs, also for silence and garbage."""
    nonce = _nonce()
    writer.write(b"%s %s\n" % (_GREETING, nonce))
    parts = (await _line(reader)).split(b" ")
    if len(parts) != 3 or not parts[0].isdigit() or len(parts[0]) > 6:
        raise NotOurs("not a greeting of an agent")
    rank, theirs, proof = parts
    transcript = (gang.encode(), rank, nonce, theirs)
    if not hmac.compare_digest(_proof(secret, b"agent", transcript), proof):
        raise NotOurs("a wrong secret")
    if not 0 < int(rank) < num_nodes:
        raise NotOurs(f"node rank {int(rank)}, but the gang has ranks 1 to {num_nodes - 1} besides this one")
    writer.write(_proof(secret, b"coordinator", transcript) + b"\n")
    key = _mac(secret, b"session", *transcript)
    return Admitted(int(rank), Channel(reader, writer, key=key, is_coordinator=True))


async def introduce(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, secret: bytes, gang: str, node_rank: int
) -> Channel:
    """An agent's side of the handshake. Raises NotOurs when the other side is not this gang's coordinator."""
    greeting, _, nonce = (await _line(reader)).rpartition(b" ")
    if greeting != _GREETING:
        raise NotOurs("not a coordinator of this version")
    mine = _nonce()
    transcript = (gang.encode(), b"%d" % node_rank, nonce, mine)
    writer.write(b"%d %s %s\n" % (node_rank, mine, _proof(secret, b"agent", transcript)))
    if not hmac.compare_digest(_proof(secret, b"coordinator", transcript), await _line(reader)):
        raise NotOurs("a coordinator with another secret")
    key = _mac(secret, b"session", *transcript)
    return Channel(reader, writer, key=key, is_coordinator=False)


async def _line(reader: asyncio.StreamReader) -> bytes:
    line = b""
    try:
        async with asyncio.timeout(HANDSHAKE_SECONDS):
            while not line.endswith(b"\n"):
                line += await reader.readexactly(1)
                if len(line) > _MAX_LINE_BYTES:
                    raise NotOurs("a line without end")
    except TimeoutError as error:
        raise NotOurs("silence") from error
    except (asyncio.IncompleteReadError, OSError) as error:
        raise NotOurs("it hung up") from error
    return line[:-1]


def _nonce() -> bytes:
    return secrets.token_hex(16).encode()


def _proof(secret: bytes, role: bytes, transcript: tuple[bytes, ...]) -> bytes:
    return _mac(secret, role, *transcript).hex().encode()


def _mac(key: bytes, *parts: bytes) -> bytes:
    """Each part goes in with its length, so that no two lists of parts look alike."""
    code = hmac.new(key, digestmod=hashlib.sha256)
    for part in parts:
        code.update(len(part).to_bytes(4, "big") + part)
    return code.digest()
