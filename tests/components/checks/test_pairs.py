"""Two nodes on one machine: the side that measures is a thread, the side that answers an event loop."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from components.checks.pairs import PairReading, answer, judge_pair, measure_pair, pair_question
from components.contracts.checks import CheckStatus

QUESTION = pair_question(host="10.0.0.2", port=4000)


@pytest.fixture
def port() -> Iterator[int]:
    """Of a peer that answers."""
    listener = socket.create_server(("127.0.0.1", 0))
    stop, ends = asyncio.Event(), list[asyncio.Future[None]]()

    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        gone = asyncio.get_running_loop().create_future()
        ends.append(gone)
        await answer(reader, writer)
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        gone.set_result(None)

    async def serve() -> None:
        server = await asyncio.start_server(peer, sock=listener)
        loops.append(asyncio.get_running_loop())
        await stop.wait()
        server.close()
        await asyncio.gather(*ends)

    loops = list[asyncio.AbstractEventLoop]()
    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    yield listener.getsockname()[1]
    loops[0].call_soon_threadsafe(stop.set)
    thread.join()


def test_latency_bandwidth_and_clocks_are_measured(port: int) -> None:
    reading = measure_pair("127.0.0.1", port, with_bandwidth=True)
    assert reading.latency_ms > 0
    assert reading.bandwidth_gbit is not None
    assert reading.bandwidth_gbit > 0
    assert abs(reading.clock_offset_seconds) < 5


def test_bandwidth_is_only_measured_when_asked_for(port: int) -> None:
    assert measure_pair("127.0.0.1", port, with_bandwidth=False).bandwidth_gbit is None


@pytest.mark.parametrize("words", [b"more please\n", b"sink 999999999999\n", b"sink -1\n", b"\n", b"x" * 100_000])
def test_whoever_asks_for_something_else_is_hung_up_on(port: int, words: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port)) as connection, contextlib.suppress(ConnectionError):
        connection.sendall(words)
        assert connection.recv(64) == b""


def test_a_peer_that_hangs_up_is_an_error_that_checks_understand() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        closer = threading.Thread(target=lambda: listener.accept()[0].close())
        closer.start()
        with pytest.raises(OSError, match=r"hung up|reset|Broken pipe"):
            measure_pair("127.0.0.1", listener.getsockname()[1], with_bandwidth=False)
        closer.join()


def test_what_was_measured_is_said() -> None:
    result = judge_pair(QUESTION, PairReading(0.21, -0.004, 9.5), peer="node 1")
    assert (result.status, result.measured) == (
        CheckStatus.OK, "node 1: 0.21 ms there and back, one connection carries 9.50 Gbit/s, clocks 0.00 s apart",
    )  # fmt: skip


def test_clocks_that_are_apart_are_a_warning_and_never_stop_a_run() -> None:
    result = judge_pair(QUESTION, PairReading(0.2, -7.25), peer="node 1")
    assert (result.status, result.blocks) == (CheckStatus.WARN, False)
    assert result.measured == "node 1: 0.20 ms there and back, clocks 7.25 s apart"
