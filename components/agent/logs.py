"""Log streams on this node: written to a local file at once, uploaded in chunks, kept until they are."""

import contextlib
import io
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from components.errors import ArgosyError
from components.storage.base import AlreadyExists, ObjectStore

MAX_CHUNK_BYTES = 4 << 20


@dataclass(frozen=True)
class Chunk:
    """A finished piece of a stream, on its way to the store."""

    key: str
    path: Path


class LogStream:
    """One stream. `write` from any thread."""

    def __init__(self, folder: Path, key_of: Callable[[int], str]) -> None:
        """`key_of` names the chunk with a number in the store."""
        self._folder, self._key_of = folder, key_of
        self._lock = threading.Lock()
        self._number, self._size = 0, 0
        self._finished: list[Chunk] = []
        folder.mkdir(parents=True, exist_ok=True)

    def write(self, data: bytes) -> None:
        """Append whole lines. A full disk must not end the training: then they are lost here, and that is said."""
        with self._lock:
            try:
                with self._path.open("ab", buffering=0) as file:
                    file.write(data)
            except OSError as error:
                print(f"cannot write the log {self._path}: {error}", file=sys.stderr)
                return
            self._size += len(data)
            if self._size >= MAX_CHUNK_BYTES:
                self._finish()

    def take(self) -> list[Chunk]:
        """Close the current chunk; everything that is ready to be uploaded, once."""
        with self._lock:
            self._finish()
            finished, self._finished = self._finished, []
        return finished

    def give_back(self, chunks: list[Chunk]) -> None:
        """These could not be uploaded now."""
        with self._lock:
            self._finished = chunks + self._finished

    @property
    def _path(self) -> Path:
        return self._folder / f"{self._number:09d}.jsonl"

    def _finish(self) -> None:
        if self._size:
            self._finished.append(Chunk(self._key_of(self._number), self._path))
            self._number, self._size = self._number + 1, 0


class LogStreams:
    """All streams of this agent."""

    def __init__(self, folder: Path, store: ObjectStore, key_of: Callable[[str, int], str]) -> None:
        """`key_of(stream, number)` names a chunk in the store."""
        self._folder, self._store, self._key_of = folder, store, key_of
        self._streams: dict[str, LogStream] = {}
        self._lock = threading.Lock()

    def get(self, name: str) -> LogStream:
        with self._lock:
            if name not in self._streams:
                self._streams[name] = LogStream(self._folder / name, lambda number: self._key_of(name, number))
            return self._streams[name]

    def upload(self) -> ArgosyError | None:
        """Upload what has come since the last call, from a thread of its own. What fails is kept for the next call."""
        with self._lock:
            streams = list(self._streams.values())
        for stream in streams:
            chunks = stream.take()
            for done, chunk in enumerate(chunks):
                try:
                    self._put(chunk)
                except ArgosyError as error:
                    stream.give_back(chunks[done:])
                    return error
        return None

    def _put(self, chunk: Chunk) -> None:
        with contextlib.suppress(AlreadyExists):  # it arrived the last time, though the answer did not
            self._store.create_from(chunk.key, chunk.path)
        chunk.path.unlink(missing_ok=True)


class NodeLog(io.TextIOBase):
    """The agent's own log: a stream among the others, and standard output for whoever watches the process."""

    def __init__(self, stream: LogStream) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(text.encode(errors="backslashreplace"))
        with contextlib.suppress(OSError, ValueError):  # a full disk, or nobody reads it any more
            sys.stdout.write(text)
            sys.stdout.flush()
        return len(text)
