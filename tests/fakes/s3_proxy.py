"""An S3 endpoint that misbehaves: it stands before a real server and, when told to, answers as bad ones do."""

import contextlib
import http.client
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_HOP_BY_HOP = ("connection", "transfer-encoding", "content-length", "keep-alive", "date", "server")


@dataclass(frozen=True)
class Fault:
    """One request that goes wrong. Without `status`, `cut` or the like it is served well."""

    method: str = ""
    """Only a request of this method; empty: any."""
    key: str = ""
    """Only one whose path ends so."""
    status: int = 0
    """Answer this instead of the truth."""
    code: str = ""
    text: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    after: bool = False
    """The server does it first; only then something goes wrong."""
    cut: bool = False
    """Close the connection instead of answering."""
    stall_seconds: float = 0.0
    """Wait before answering."""
    body_bytes: int | None = None
    """Close the connection after so many bytes of the body."""
    drip_bytes: int = 0
    """Send the body in pieces of this size, with pauses."""
    flip: bool = False
    """One bit of the body arrives wrong."""
    without_headers: tuple[str, ...] = ()
    """The server never sees these headers of the request, in lower case, or does not send them in its answer."""


class S3Proxy:
    """`faults` are used up in order, each by the first request it is meant for; `seen` tells all requests."""

    def __init__(self, upstream_port: int, port: int) -> None:
        self.upstream_port, self.port = upstream_port, port
        self._lock = threading.Lock()
        self.behave()

    def behave(self) -> None:
        """From now on, with nothing remembered."""
        self.faults: list[Fault] = []
        self.always: Callable[[str, str], Fault | None] = lambda method, path: None
        """What becomes of a request that no fault of the list is meant for."""
        self.seen: list[tuple[str, str]] = []

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def misbehave(self, *faults: Fault) -> None:
        self.faults.extend(faults)

    def count(self, method: str) -> int:
        """How many requests of that method came."""
        return sum(seen == method for seen, _ in self.seen)

    def take(self, method: str, path: str) -> Fault:
        """What becomes of the next request."""
        with self._lock:
            self.seen.append((method, path))
            for fault in self.faults:
                if fault.method in ("", method) and path.split("?")[0].endswith(fault.key):
                    self.faults.remove(fault)
                    return fault
        return self.always(method, path) or Fault()


@contextlib.contextmanager
def running_proxy(upstream_port: int) -> Iterator[S3Proxy]:
    """A proxy before the server on `upstream_port`, until the end of the block."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.proxy = S3Proxy(upstream_port, server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server.proxy
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    proxy: S3Proxy

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Connections break here all the time; that is what it is for."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = self.server.proxy.take(self.command, self.path)
        if not fault.after and (fault.cut or fault.status):
            time.sleep(fault.stall_seconds)
            self._fail(fault)
            return
        status, headers, data = self._ask_upstream(body, fault)
        time.sleep(fault.stall_seconds)
        if fault.cut or fault.status:
            self._fail(fault)
            return
        self._answer(status, headers, data, fault)

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = _serve  # noqa: N815

    def _ask_upstream(self, body: bytes, fault: Fault) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.proxy.upstream_port, timeout=30)
        try:
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in (*fault.without_headers, "expect", "connection"):
                    connection.putheader(name, value)
            connection.endheaders(body)
            answer = connection.getresponse()
            data = answer.read()
            length = answer.headers.get("Content-Length", "0") if self.command == "HEAD" else str(len(data))
            hidden = (*_HOP_BY_HOP, *fault.without_headers)
            kept = [(name, value) for name, value in answer.getheaders() if name.lower() not in hidden]
            return answer.status, [*kept, ("Content-Length", length)], data
        finally:
            connection.close()

    def _answer(self, status: int, headers: list[tuple[str, str]], data: bytes, fault: Fault) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        if fault.flip and data:
            data = data[:-1] + bytes([data[-1] ^ 1])
        if fault.body_bytes is not None:
            self.wfile.write(data[: fault.body_bytes])
            self.close_connection = True
            return
        step = fault.drip_bytes or max(len(data), 1)
        for start in range(0, len(data), step):
            self.wfile.write(data[start : start + step])
            time.sleep(0.002 if fault.drip_bytes else 0)

    def _fail(self, fault: Fault) -> None:
        self.close_connection = True
        if fault.cut:
            return
        text = f"<?xml version='1.0'?><Error><Code>{fault.code}</Code><Message>told to</Message>{fault.text}</Error>"
        data = b"" if self.command == "HEAD" or fault.status == 200 else text.encode()
        self.send_response(fault.status)
        for name, value in fault.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)
