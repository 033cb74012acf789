"""Requests to the API server: one try, several tries, and answers that stay open."""

import contextlib
import json
import math
import random
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import urlencode

import urllib3
from urllib3 import exceptions as http

from components.cluster.answers import NotDone, Request, TryAgain, Unsettled, explain
from components.cluster.base import Forbidden, NotSignedIn
from components.errors import ArgosyError, BadInput, EnvironmentUnfit, Transient

USER_AGENT = "argosy"
"""By which the server's audit log tells our requests from those of others with the same account."""

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 30.0
"""The server itself ends a request after a minute; most answers take milliseconds."""

SETTLING_SECONDS = 30.0
"""A server that is just back refuses for a while what it allows: it has not yet read who may do what."""

KEEP_ALIVE = [
    *urllib3.connection.HTTPConnection.default_socket_options,
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *(
        (socket.IPPROTO_TCP, getattr(socket, name), value)
        for name, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))
        if hasattr(socket, name)
    ),
]
"""A peer that vanished without a word is noticed after half a minute: a watch has nothing else to notice it by."""

NO_SUCH_HOST = (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME))


@dataclass(frozen=True)
class Tries:
    """How long a request is tried again, and how far apart. Seconds."""

    total_seconds: float = 60.0
    first_pause_seconds: float = 0.2
    max_pause_seconds: float = 5.0
    clock: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep
    chance: Callable[[], float] = random.random

    def pauses(self) -> Iterator[float]:
        """Pauses between tries, jittered, until the time is up."""
        end, pause = self.clock() + self.total_seconds, self.first_pause_seconds
        while self.clock() < end:
            yield pause * (0.5 + self.chance() / 2)
            pause = min(pause * 2, self.max_pause_seconds)


PATIENT = Tries()
BRIEF = Tries(total_seconds=4.0)
"""For people at a terminal."""


@dataclass(frozen=True)
class Words:
    """What people are told about their kind of server."""

    kind: str = "an API server"
    ca_place: str = "certificate-authority in the kubeconfig"
    """Where they say whom to trust."""
    if_away: str = "is the cluster up, and reachable from here? is this the right context?"
    if_unknown: str = "choose another context"


@dataclass
class Transport:
    """One API server and one account."""

    pool: urllib3.PoolManager
    host: str
    authorization: Callable[[], str | None]
    tries: Tries = PATIENT
    explain: Callable[[Request, int, bytes, Mapping[str, str]], ArgosyError] = explain
    """What an unsuccessful answer means; another kind of server has other words."""
    words: Words = Words()
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Credentials are renewed by one thread at a time."""
    away_at: float = -math.inf
    """When the server last did not answer, by the clock of `tries`."""

    def ask(
        self, request: Request, method: str, path: str, *, query: Mapping[str, str] | None = None, body: Any = None,
        content_type: str = "application/json",
    ) -> Any:  # fmt: skip
        """The JSON answer to a request that may be made twice, tried again while that may help."""
        pauses = self.tries.pauses()
        while True:
            try:
                return self.once(request, method, path, query=query, body=body, content_type=content_type)
            except TryAgain as error:
                pause = next(pauses, None)
                if pause is None:
                    raise
                self.tries.pause(max(pause, error.wait_seconds))

    def once(
        self, request: Request, method: str, path: str, *, query: Mapping[str, str] | None = None, body: Any = None,
        content_type: str = "application/json",
    ) -> Any:  # fmt: skip
        """The JSON answer to one request made once. Raises Unsettled when nobody knows whether it was done."""
        data = None if body is None else json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        response = self._send(request, method, path, query, data, content_type)
        try:
            content = response.data  # already read
            if response.status >= 400:
                raise self._meaning(request, response.status, content, response.headers)
            return json.loads(content) if content else {}
        except ValueError as error:
            what = content[:100].decode("utf-8", "replace")
            fix = f"is this the address of {self.words.kind}?"
            raise EnvironmentUnfit("NotAnApiServer", f"{self.host} answers {what!r}, which is no JSON", fix) from error

    def stream(self, request: Request, path: str, query: Mapping[str, str]) -> "OpenAnswer":
        """An answer that is read as it comes. Tried once."""
        response = self._send(request, "GET", path, query, None, "", preload=False)
        if response.status >= 400:
            data = response.read(100_000, decode_content=True)
            response.close()
            raise self._meaning(request, response.status, data, response.headers)
        return OpenAnswer(response, on_break=self._is_away)

    def _meaning(self, request: Request, status: int, data: bytes, headers: Mapping[str, str]) -> ArgosyError:
        error = self.explain(request, status, data, headers)
        if isinstance(error, Unsettled):
            self._is_away()
        is_refused = isinstance(error, Forbidden) or error.reason == "NotSignedIn"
        if is_refused and self.seconds_since_away < SETTLING_SECONDS:
            return NotDone("JustBack", f"{self.host} did not answer a moment ago, and says now: {error}", "ask again")
        return error

    @property
    def seconds_since_away(self) -> float:
        """Since the server last did not answer; infinite when it always did."""
        return self.tries.clock() - self.away_at

    def _is_away(self) -> None:
        self.away_at = self.tries.clock()

    def _send(
        self, request: Request, method: str, path: str, query: Mapping[str, str] | None, data: bytes | None,
        content_type: str, *, preload: bool = True,
    ) -> Any:  # fmt: skip
        headers = {"Accept": "application/json", "User-Agent": USER_AGENT}
        if data is not None:
            headers["Content-Type"] = content_type
        with self.lock:
            token = self.authorization()
        if token:
            headers["Authorization"] = token
        url = self.host + path + (f"?{urlencode(query)}" if query else "")
        try:
            return self.pool.request(
                method, url, body=data, headers=headers, retries=False, redirect=False, preload_content=preload,
                timeout=urllib3.Timeout(connect=CONNECT_SECONDS, read=ANSWER_SECONDS),
            )  # fmt: skip
        except (http.HTTPError, OSError) as error:
            self._is_away()
            raise self._unanswered(request, error) from error

    def _unanswered(self, request: Request, error: Exception) -> ArgosyError:
        cause = _innermost(error)
        seen = f"{self.host} does not answer: {cause}"
        if isinstance(cause, ssl.SSLCertVerificationError):
            fix = f"give its certificate authority ({self.words.ca_place})"
            return BadInput("CertificateRefused", f"{self.host} shows a certificate that is not trusted: {cause}", fix)
        if isinstance(cause, ssl.SSLError) and "alert" in str(cause).lower():
            fix = "the client certificate is wrong or has expired: sign in again, as you do for kubectl"
            return NotSignedIn("NotSignedIn", f"{self.host} refuses the connection: {cause}", fix)
        if isinstance(cause, ssl.SSLError) and cause.library in ("X509", "PEM"):  # before anything is sent
            seen = f"the certificate authority to trust cannot be read: {cause}"
            return BadInput("CaUnreadable", seen, f"correct {self.words.ca_place}: certificates as PEM")
        if isinstance(cause, ssl.SSLError) and ("WRONG_VERSION" in str(cause) or "RECORD_LAYER" in str(cause)):
            return BadInput("NotTls", f"{self.host} does not speak TLS", "use http:// in its address")
        if isinstance(cause, socket.gaierror) and cause.errno in NO_SUCH_HOST and not request.is_in_cluster:
            return BadInput("UnknownHost", f"no host has the name in {self.host}", self.words.if_unknown)
        fix = self.words.if_away
        if isinstance(cause, ConnectionResetError) and self.host.startswith("http://"):
            fix = f"if it speaks TLS, use https:// in its address; else: {fix}"
        if isinstance(error, (http.NewConnectionError, http.ConnectTimeoutError, http.ProxyError)):
            return NotDone("NoAnswer", seen, fix)
        return Unsettled("NoAnswer", seen, fix)


def _innermost(error: BaseException) -> BaseException:
    """What the system or TLS said, below what urllib3 made of it."""
    seen: BaseException = error
    while True:
        inner = next((item for item in (*seen.args, seen.__cause__) if isinstance(item, BaseException)), None)
        if inner is None or inner is seen:
            return seen
        seen = inner


class OpenAnswer:
    """Lines of an answer that stays open. `close` ends it from any thread."""

    def __init__(self, response: Any, *, on_break: Callable[[], None] = lambda: None) -> None:
        """`on_break` hears of a connection that broke, before who reads it does."""
        self._response = response
        self._on_break = on_break
        self._socket = _socket_of(response)
        self._is_closed = False

    def lines(self, *, quiet_seconds: float | None) -> Iterator[bytes]:
        """Lines without their newline. Raises Transient when the connection breaks or nothing comes for so long."""
        if self._socket is not None:
            self._socket.settimeout(quiet_seconds)
        rest = b""
        try:
            for chunk in self._response.stream(1 << 16, decode_content=False):
                *whole, rest = (rest + chunk).split(b"\n")
                yield from whole
        except (http.HTTPError, OSError, ValueError, AttributeError) as error:
            # The last two are what a response says when another thread closes it under its reader.
            if not self._is_closed:
                self._on_break()
                raise Transient("ConnectionBroke", f"the connection broke: {_innermost(error)}", "ask again") from error
            return
        if rest and not self._is_closed:
            yield rest

    def close(self) -> None:
        """End it, and wake who reads it."""
        self._is_closed = True
        if self._socket is not None:
            # The plain method: TLS's own would take the connection's state from under the reading thread.
            with contextlib.suppress(OSError):  # already broken
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def finish(self) -> None:
        """Give the connection back; only by the thread that reads."""
        self._response.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()


def _socket_of(response: Any) -> socket.socket | None:
    found = getattr(getattr(response, "connection", None), "sock", None)
    if found is None:  # the server said that it closes the connection afterwards
        raw = getattr(getattr(getattr(response, "_original_response", None), "fp", None), "raw", None)
        found = getattr(raw, "_sock", None)
    return found if isinstance(found, socket.socket) else None
