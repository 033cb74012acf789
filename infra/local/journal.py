"""`events.jsonl` being written: appended line by line, durable before the engine sleeps, usable on a full disk."""

import errno
import os
from types import TracebackType

from components.contracts.document import DamagedDocument
from components.errors import EnvironmentUnfit
from infra.local.events import Event, event_line, read_events
from infra.local.run_dir import RunDir, sync_folder

_RESERVE_BYTES = 16 << 10


class Journal:
    """The one writer of a run's events. Open it only while holding the run's lock."""

    def __init__(self, run_dir: RunDir) -> None:
        """Opens the file and cuts off a torn last line. Raises DamagedDocument when more than that is unreadable."""
        self._path = run_dir.events_path
        self._reserve = run_dir.path / ".reserve"
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        with os.fdopen(os.dup(self._descriptor), "rb") as file:
            data = file.read()
        self.events, self._end = read_events(data)
        if _holds_more_events(data[self._end :]):
            raise DamagedDocument(
                "DamagedDocument",
                f"{self._path} cannot be read from byte {self._end} on, and events follow",
                "restore the file, or submit a new run: its checkpoints are found",
            )
        os.ftruncate(self._descriptor, self._end)
        self._is_dirty = False
        self._keep_reserve()
        sync_folder(run_dir.path)

    def __enter__(self) -> "Journal":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)

    @property
    def descriptor(self) -> int:
        return self._descriptor

    def append(self, event: Event) -> None:
        """Write `event`; durable after the next `sync`. Raises EnvironmentUnfit when the disk refuses."""
        line = event_line(event)
        # A line that cannot be read would end the history here, unnoticed until somebody resumes.
        assert read_events(line)[0] == [event], f"{event!r} does not read back"
        self._write(line)

    def sync(self) -> None:
        """Make every appended event durable."""
        if self._is_dirty:
            try:
                os.fsync(self._descriptor)
            except OSError as error:
                raise self._refused(error) from error
            self._is_dirty = False

    def append_last(self, event: Event) -> None:
        """Write the run's end even when the disk is full, out of space set aside for it."""
        self._reserve.unlink(missing_ok=True)
        self._write(event_line(event))
        self.sync()

    def _write(self, line: bytes) -> None:
        try:
            written = os.pwrite(self._descriptor, line, self._end)
            if written != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            os.ftruncate(self._descriptor, self._end)
            raise self._refused(error) from error
        self._end += written
        self._is_dirty = True

    def _keep_reserve(self) -> None:
        try:
            if not self._reserve.exists():
                self._reserve.write_bytes(bytes(_RESERVE_BYTES))
        except OSError as error:
            raise self._refused(error) from error

    def _refused(self, error: OSError) -> EnvironmentUnfit:
        return EnvironmentUnfit(
            "RunNotRecorded",
            f"cannot write {self._path}: {error.strerror}",
            "free space there (or move ARGOSY_HOME), then resume the run",
        )


def _holds_more_events(rest: bytes) -> bool:
    """Whether a readable event stands after the first unreadable line."""
    _, _, after = rest.partition(b"\n")
    return bool(read_events(after)[0])
