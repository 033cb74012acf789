"""Watches that outlive their connections, and logs."""

import contextlib
import json
import random
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Self, TypeVar

from components.cluster.answers import Request, TryAgain, explain
from components.cluster.base import WatchEvent
from components.cluster.transport import OpenAnswer, Transport
from components.errors import Transient

LASTING_SECONDS = 290
"""How long one connection of a watch is asked to last: below five minutes, at which many load balancers cut."""

_GIVE_UP_SECONDS = 600.0
"""A server that does not answer for so long is not coming back by itself."""


Item = TypeVar("Item")


class Closable(Generic[Item]):
    """Something iterated by one thread and closed by any."""

    def __init__(self) -> None:
        self.closed = threading.Event()
        self._items: Generator[Item, None, None] = _nothing()
        self._answer: OpenAnswer | None = None
        self._lock = threading.Lock()

    def close(self) -> None:
        """End the iteration, whichever thread is in it."""
        with self._lock:
            self.closed.set()
            if self._answer is not None:
                self._answer.close()
        with contextlib.suppress(ValueError):  # another thread is in it, and finds it closed
            self._items.close()

    def __iter__(self) -> Iterator[Item]:
        return self

    def __next__(self) -> Item:
        return next(self._items)

    def _reading(self, answer: OpenAnswer | None) -> None:
        with self._lock:
            self._answer = answer
            if answer is not None and self.closed.is_set():
                answer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True)
class Dialect:
    """How a watch is spelled: the API server's own way, or that of a server in front of it."""

    option: str = "{}"
    """Name of a list option in the query."""
    query: Mapping[str, str] = field(default_factory=lambda: {"watch": "1", "allowWatchBookmarks": "true"})
    event: Callable[[Any], Any] = lambda line: line
    """The event in a line's JSON. May raise WatchExpired."""


class ApiWatch(Closable[WatchEvent]):
    """`WatchStream` over HTTP."""

    def __init__(
        self, transport: Transport, request: Request, path: str, query: dict[str, str], *, resource_version: str,
        seconds: float | None, dialect: Dialect = Dialect(),
    ) -> None:  # fmt: skip
        super().__init__()
        self.resource_version = resource_version
        self._dialect = dialect
        self._transport, self._request, self._path, self._query = transport, request, path, query
        self._end = None if seconds is None else time.monotonic() + seconds
        self._items = self._all_events()

    def _all_events(self) -> Generator[WatchEvent, None, None]:
        pause, silent_since = 0.0, time.monotonic()
        while not self.closed.wait(self._bounded(pause)) and not self._is_over():
            began = time.monotonic()
            try:
                answer = self._open()
            except TryAgain as error:
                if time.monotonic() - silent_since > _GIVE_UP_SECONDS:
                    raise
                pause = max(_longer(pause), error.wait_seconds)
                continue
            had_events = False
            try:
                for event in self._read(answer):
                    had_events = True
                    yield event
            except Transient:
                if self._is_over() or self.closed.is_set():
                    return
            finally:
                self._reading(None)
                answer.finish()
            silent_since = time.monotonic()
            # A connection that is cut at once must not become a storm of requests.
            pause = 0.0 if had_events or silent_since - began > 5.0 else _longer(pause)

    def _open(self) -> OpenAnswer:
        left = LASTING_SECONDS if self._end is None else max(self._end - time.monotonic(), 0.0)
        options = {**self._query, "timeoutSeconds": str(max(1, round(min(LASTING_SECONDS, left))))}
        if self.resource_version:
            options["resourceVersion"] = self.resource_version
        query = {**self._dialect.query, **{self._dialect.option.format(name): text for name, text in options.items()}}
        answer = self._transport.stream(self._request, self._path, query)
        self._reading(answer)
        return answer

    def _read(self, answer: OpenAnswer) -> Iterator[WatchEvent]:
        quiet = LASTING_SECONDS + 15.0 if self._end is None else max(self._end - time.monotonic(), 0.0) + 0.05
        for line in answer.lines(quiet_seconds=quiet):
            if self.closed.is_set():
                return
            try:
                event = self._dialect.event(json.loads(line))
            except ValueError:
                return  # cut in the middle of a line
            item = event.get("object") or {}
            if event.get("type") == "ERROR":
                raise explain(self._request, int(item.get("code") or 500), json.dumps(item).encode(), {})
            self.resource_version = item.get("metadata", {}).get("resourceVersion") or self.resource_version
            if event.get("type") != "BOOKMARK":
                yield WatchEvent(event["type"], item)

    def _is_over(self) -> bool:
        return self._end is not None and time.monotonic() >= self._end

    def _bounded(self, pause: float) -> float:
        return pause if self._end is None else min(pause, max(self._end - time.monotonic(), 0.0))


class ApiLog(Closable[bytes]):
    """`LogStream` over HTTP."""

    def __init__(self, answer: OpenAnswer, *, follow: bool, text: Callable[[bytes], bytes] = lambda line: line) -> None:
        super().__init__()
        self._text = text
        self._reading(answer)
        self._items = self._all_lines(answer, None if follow else 60.0)

    def _all_lines(self, answer: OpenAnswer, quiet_seconds: float | None) -> Generator[bytes, None, None]:
        try:
            for line in answer.lines(quiet_seconds=quiet_seconds):
                yield self._text(line)
        finally:
            self._reading(None)
            answer.finish()


def _nothing() -> Generator[Any, None, None]:
    yield from ()


def _longer(pause: float) -> float:
    return min(max(pause * 2, 0.25), 10.0) * (0.75 + random.random() / 4)
