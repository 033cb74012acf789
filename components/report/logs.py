"""Reads a run's log lines, oldest first, from the gang's chunks in storage and from the engine's files.

A `LogReader` remembers where it was, so the same one serves a single look and `--follow`.
"""

import heapq
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from components.contracts.layout import run_folder
from components.contracts.names import DURING_TRAINING
from components.errors import ArgosyError, Transient
from components.report.text import plain
from components.storage.base import ObjectNotFound, ObjectStore

_STREAM = re.compile(r"node-(?P<node_rank>\d+)(?:\.rank-(?P<rank>\d+))?(?:\.attempt-(?P<attempt>\d+))?$")
_CHUNK = re.compile(r"/gang/g(?P<generation>\d+)/logs/(?P<stream>[^/]+)/(?P<chunk>\d+)\.jsonl$")

_TAIL_BYTES = 16 << 10


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line, whoever wrote it."""

    at: str
    level: str
    message: str
    task: str
    node: str
    node_rank: int | None
    rank: int | None
    generation: int | None
    """None for lines from outside the gang."""
    fields: dict[str, Any]
    """Everything the line carries, as written."""


@dataclass(frozen=True)
class LogFile:
    """A file the engine keeps: the output of one attempt of one task."""

    task: str
    path: Path
    started_at: str = ""
    """The time of lines that carry none, until one does."""


class PartlyRefused(Exception):
    """Some of a run's files may not be read; those that may are here."""

    def __init__(self, files: Sequence[LogFile], error: ArgosyError) -> None:
        super().__init__(str(error))
        self.files, self.error = files, error


@dataclass(frozen=True)
class LogFilter:
    """Which lines are wanted; None: all."""

    stage: str | None = None
    """A task, or the beginning of several: `shard` stands for shard-plan, shard-task-…, shard-merge."""
    node: str | None = None
    """A node's name or its node rank."""
    rank: int | None = None

    def wants(self, line: LogLine) -> bool:
        if self.rank is not None and line.rank != self.rank:
            return False
        # What agents run beside the ranks has a task of its own and still belongs to the launch stage.
        tasks = (line.task, "launch") if line.node_rank is not None else (line.task,)
        if self.stage is not None and not any(_is_of(self.stage, task) for task in tasks):
            return False
        return self.node is None or self.node in (line.node, str(line.node_rank), f"node-{line.node_rank}")

    def wants_stream(self, *, task: str, node_rank: int | None, rank: int | None) -> bool:
        """Whether such a stream can hold a wanted line; saves reading the others."""
        if (
            self.stage is not None
            and not _is_of(self.stage, task)
            and not (node_rank is not None and _is_of(DURING_TRAINING, self.stage))
        ):
            return False
        return self.rank is None or rank is None or rank == self.rank


def _is_of(stage: str, task: str) -> bool:
    return task == stage or task.startswith(f"{stage}-")


@dataclass
class _Position:
    """How far one stream was read."""

    task: str
    node_rank: int | None = None
    rank: int | None = None
    generation: int | None = None
    offset: int = 0
    chunk: int = -1
    last_at: str = ""
    rest: bytes = field(default=b"")


def tail(path: Path, *, num_lines: int = 8) -> tuple[str, ...]:
    """The last messages in a file, control characters removed; none when it cannot be read."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL_BYTES))
            raws = file.read().splitlines()[-num_lines:]
    except OSError:
        return ()
    lines = [text for line in _lines(raws, _Position("")) for text in plain(line.message).splitlines()]
    return tuple(line[:500] for line in lines if line.strip())[-num_lines:]


class LogReader:
    """Everything that was written by one run, in the order of time, each line once."""

    def __init__(
        self, store: ObjectStore, run: str, files: Callable[[], Sequence[LogFile]], wanted: LogFilter = LogFilter()
    ) -> None:
        self._store, self._run, self._files, self._wanted = store, run, files, wanted
        self._positions: dict[str, _Position] = {}

    def new_lines(self, *, final: bool = True) -> Iterator[LogLine]:
        """Lines not given before. `final`: also a last line that does not end yet."""
        streams = [*self._gang_streams(), *self._file_streams(final)]
        for line in heapq.merge(*streams, key=lambda line: line.at):
            if self._wanted.wants(line):
                yield line

    def _gang_streams(self) -> Iterator[Iterator[LogLine]]:
        chunks: dict[str, list[tuple[int, str]]] = {}
        for item in self._store.list(f"{run_folder(self._run)}/gang"):
            match = _CHUNK.search(item.key)
            if match:
                stream = f"g{match['generation']}/{match['stream']}"
                chunks.setdefault(stream, []).append((int(match["chunk"]), item.key))
        for stream, keys in chunks.items():
            position = self._position(stream)
            if self._wanted.wants_stream(task="launch", node_rank=position.node_rank, rank=position.rank):
                yield self._read_chunks(position, sorted(keys))

    def _position(self, stream: str) -> _Position:
        if stream not in self._positions:
            generation, _, name = stream.removeprefix("g").partition("/")
            match = _STREAM.match(name)
            node_rank = int(match["node_rank"]) if match else None
            rank = int(match["rank"]) if match and match["rank"] else None
            self._positions[stream] = _Position("launch", node_rank, rank, int(generation))
        return self._positions[stream]

    def _read_chunks(self, position: _Position, keys: Sequence[tuple[int, str]]) -> Iterator[LogLine]:
        for chunk, key in keys:
            if chunk <= position.chunk:
                continue
            try:
                data = self._store.read(key)
            except (ObjectNotFound, Transient):
                return
            position.chunk = chunk
            yield from _lines(data.splitlines(), position)

    def _file_streams(self, final: bool) -> Iterator[Iterator[LogLine]]:
        if self._wanted.rank is not None:  # all lines of ranks are in the gang's streams, so nobody else is asked
            return
        for file in self._files():
            if self._wanted.wants_stream(task=file.task, node_rank=None, rank=None):
                position = self._positions.setdefault(str(file.path), _Position(file.task, last_at=file.started_at))
                yield self._read_file(file.path, position, final)

    def _read_file(self, path: Path, position: _Position, final: bool) -> Iterator[LogLine]:
        try:
            with path.open("rb") as file:
                file.seek(position.offset)
                for raw in file:
                    if not raw.endswith(b"\n") and not final:
                        return
                    position.offset += len(raw)
                    for line in _lines((raw.rstrip(b"\r\n"),), position):
                        # The launcher repeats some ranks' lines for `argo logs`; the gang's streams hold them all.
                        if line.task != "launch" or line.rank is None:
                            yield line
        except OSError:
            return


def _lines(raws: Sequence[bytes], position: _Position) -> Iterator[LogLine]:
    for raw in raws:
        try:
            fields = json.loads(raw)
        except ValueError:
            fields = None
        if not isinstance(fields, dict):
            fields = {"message": raw.decode("utf-8", "replace")}
        at = str(fields.get("at") or position.last_at)
        position.last_at = at
        rank = fields.get("rank")
        yield LogLine(
            at=at, level=str(fields.get("level", "info")), message=str(fields.get("message", "")),
            task=str(fields.get("task") or position.task), node=str(fields.get("node", "")),
            node_rank=position.node_rank, rank=rank if isinstance(rank, int) else position.rank,
            generation=position.generation, fields=fields,
        )  # fmt: skip
