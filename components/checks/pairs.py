"""What is between two nodes: the time there and back, what one connection carries, how far their clocks are apart.

The other side is `answer`, at the port that every agent keeps open for its peers. Lines of text, then plain bytes:

    time          answered by the time there, seconds since 1970
    sink <n>      n bytes follow, which are thrown away; answered by `ok`

Whoever can reach the port may ask; a connection is given little, and not for long.
"""

import asyncio
import socket
import time
from contextlib import closing
from dataclasses import dataclass
from statistics import median

from components.checks.question import Question
from components.contracts.checks import CheckResult

MAX_CLOCK_OFFSET_SECONDS = 5.0
_ROUNDS = 20
_FEW_BYTES, _MANY_BYTES = 2 << 20, 32 << 20
_SHORT_SECONDS = 0.05
_SECONDS = 8.0
_BLOCK = bytes(1 << 18)


@dataclass(frozen=True)
class PairReading:
    """Measured from here to one peer."""

    latency_ms: float
    """There and back, the median, through both agents' Python."""
    clock_offset_seconds: float
    """Theirs minus ours, at the quickest answer."""
    bandwidth_gbit: float | None = None
    """Of one connection; None: not measured."""


def pair_question(*, host: str, port: int) -> Question:
    """Asks what is between here and the agent at `host:port`. Nothing but the clocks is judged."""
    return Question(
        name="pair", scope="node", subject=f"{host}:{port}", hard=False,
        expected=f"clocks within {MAX_CLOCK_OFFSET_SECONDS:g} s; no latency or bandwidth is demanded",
        origin="times in logs and reports from several machines are compared",
        remedy="synchronise the clocks (NTP); nothing decides by them, but timelines will mislead",
    )  # fmt: skip


def judge_pair(question: Question, reading: PairReading, *, peer: str) -> CheckResult:
    """The answer for what was measured."""
    offset = abs(reading.clock_offset_seconds)
    carries = "" if reading.bandwidth_gbit is None else f", one connection carries {reading.bandwidth_gbit:.2f} Gbit/s"
    measured = f"{peer}: {reading.latency_ms:.2f} ms there and back{carries}, clocks {offset:.2f} s apart"
    return question.ok(measured) if offset <= MAX_CLOCK_OFFSET_SECONDS else question.fail(measured)


def measure_pair(host: str, port: int, *, with_bandwidth: bool) -> PairReading:
    """Raises OSError when the peer does not answer as it should."""
    with closing(socket.create_connection((host, port), timeout=_SECONDS)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        rounds = [_ask_time(connection) for _ in range(_ROUNDS)]
        bandwidth = _bandwidth(connection) if with_bandwidth else None
    quickest = min(rounds)
    return PairReading(1000 * median(seconds for seconds, _ in rounds), quickest[1], bandwidth)


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One connection of a peer, from the other side."""
    try:
        async with asyncio.timeout(_SECONDS):
            while line := await reader.readline():
                word, _, number = line.strip().partition(b" ")
                if word == b"time":
                    writer.write(b"%.6f\n" % time.time())
                elif word == b"sink" and number.isdigit() and int(number) <= _MANY_BYTES:
                    await _swallow(reader, int(number))
                    writer.write(b"ok\n")
                else:
                    break
    except (TimeoutError, OSError, EOFError, ValueError):
        pass
    finally:
        writer.close()


async def _swallow(reader: asyncio.StreamReader, num_bytes: int) -> None:
    while num_bytes > 0:
        block = await reader.read(min(num_bytes, len(_BLOCK)))
        if not block:
            raise EOFError
        num_bytes -= len(block)


def _ask_time(connection: socket.socket) -> tuple[float, float]:
    """Seconds it took, and their clock minus ours."""
    ours, begin = time.time(), time.perf_counter()
    connection.sendall(b"time\n")
    theirs = _line(connection)
    seconds = time.perf_counter() - begin
    try:
        return seconds, float(theirs) - (ours + seconds / 2)
    except ValueError:
        raise OSError(f"the peer answers {theirs[:40]!r}") from None


def _bandwidth(connection: socket.socket) -> float:
    """Gbit/s; a little first, which is enough to measure a slow network."""
    seconds, num_bytes = _sink(connection, _FEW_BYTES), _FEW_BYTES
    if seconds < _SHORT_SECONDS:
        seconds, num_bytes = _sink(connection, _MANY_BYTES), _MANY_BYTES
    return 8e-9 * num_bytes / max(seconds, 1e-6)


def _sink(connection: socket.socket, num_bytes: int) -> float:
    begin = time.perf_counter()
    connection.sendall(b"sink %d\n" % num_bytes)
    for _ in range(num_bytes // len(_BLOCK)):
        connection.sendall(_BLOCK)
    if (said := _line(connection)) != b"ok":
        raise OSError(f"the peer answers {said[:40]!r}")
    return time.perf_counter() - begin


def _line(connection: socket.socket) -> bytes:
    """Both sides take turns, so nothing follows it."""
    found = b""
    while not found.endswith(b"\n"):
        block = connection.recv(64)
        if not block or len(found) > 256:
            raise ConnectionError("the peer hung up")
        found += block
    return found.strip()
