"""Passes rank 0's log lines, and the first failing rank's, on to the launcher's own output as agents upload them.

The whole is in storage; what stands here is for whoever follows the stage, so a flood is cut and the cut is said.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from components.contracts.gang import GangState
from components.contracts.layout import log_chunk_key, log_folder, rank_stream
from components.errors import ArgosyError
from components.runtime.log import Log
from components.storage.base import ObjectNotFound, ObjectStore

MAX_BYTES = 256 << 10
"""Of one stream in one `poll`: a program that prints megabytes a second shall not fill this log as well."""


@dataclass
class _Followed:
    stream: str
    next_chunk: int = 0


class LogRelay:
    """Follows streams of one generation, chunk by chunk."""

    def __init__(
        self, store: ObjectStore, *, run: str, generation: int, write: Callable[[str], None], log: Log
    ) -> None:
        """`write` takes whole lines, each already a JSON object."""
        self._store, self._run, self._generation = store, run, generation
        self._write, self._log = write, log
        self._followed: dict[str, _Followed] = {}

    def poll(self, state: GangState | None) -> None:
        """Pass on what arrived since the last call. A store that does not answer only delays the lines."""
        for stream in _wanted(state):
            followed = self._followed.setdefault(stream, _Followed(stream))
            try:
                self._pass_on(followed)
            except ArgosyError as error:
                self._log.warning("cannot read a rank's log now", stream=stream, seen=str(error))

    def _pass_on(self, followed: _Followed) -> None:
        lines, size, left_out = deque[str](), 0, 0
        while (chunk := self._read(followed)) is not None:
            followed.next_chunk += 1
            for line in chunk.decode("utf-8", "replace").splitlines():
                lines.append(line)
                size += len(line) + 1
            while size > MAX_BYTES and lines:
                size -= len(lines.popleft()) + 1
                left_out += 1
        if left_out:
            where = self._store.uri_of(log_folder(self._run, generation=self._generation, stream=followed.stream))
            self._log.info(f"{left_out} lines of {followed.stream} left out here", where=where)
        if lines:
            self._write("\n".join(lines) + "\n")

    def _read(self, followed: _Followed) -> bytes | None:
        key = log_chunk_key(
            self._run, generation=self._generation, stream=followed.stream, chunk=followed.next_chunk
        )  # fmt: skip
        try:
            return self._store.read(key)
        except ObjectNotFound:
            return None


def _wanted(state: GangState | None) -> list[str]:
    """Rank 0 in every attempt, and whoever failed first in an attempt."""
    streams: dict[str, None] = {}
    for attempt in state.attempts if state else ():
        streams[rank_stream(node_rank=0, rank=0, attempt=attempt.attempt)] = None
        failure = attempt.failure
        if failure and failure.rank is not None and failure.node_rank is not None:
            streams[rank_stream(node_rank=failure.node_rank, rank=failure.rank, attempt=attempt.attempt)] = None
    return list(streams)
