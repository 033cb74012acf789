"""An object as a stream that survives broken connections: it goes on where it stopped and ends only complete."""

import io
from collections.abc import Callable
from typing import Any, Protocol

from components.storage.patience import Tries

BUFFER_BYTES = 256 << 10


class Answer(Protocol):
    """The body of a GET."""

    def read(self, num_bytes: int) -> bytes: ...

    def close(self) -> None: ...


class ObjectStream(io.RawIOBase):
    """Reads one version of one object from its start to its last byte."""

    def __init__(
        self, answer: Answer, *, size_bytes: int, again: Callable[[int], Answer],
        give_up_or_wait: Callable[[Exception | None, Tries], None], tries: Callable[[], Tries],
        failures: tuple[type[Exception], ...],
    ) -> None:  # fmt: skip
        """`again(position)` asks for the rest of the same version; `give_up_or_wait` raises once patience ends."""
        self._answer: Answer | None = answer
        self._size_bytes, self._position = size_bytes, 0
        self._again, self._give_up_or_wait, self._begin, self._failures = again, give_up_or_wait, tries, failures

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a byte; the next read asks for the object from there on, so a jump costs a request."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size_bytes}[whence]
        position = min(max(start + offset, 0), self._size_bytes)
        if position != self._position:
            self._hang_up()
            self._position = position
        return position

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        wanted = min(len(view), self._size_bytes - self._position)
        if not wanted:
            return 0
        tries: Tries | None = None
        while True:
            chunk, failure = b"", None
            try:
                if self._answer is None:
                    self._answer = self._again(self._position)
                chunk = self._answer.read(wanted)
            except self._failures as error:
                failure = error
            if chunk:
                view[: len(chunk)] = chunk
                self._position += len(chunk)
                return len(chunk)
            self._hang_up()  # an end before the end is a cut connection
            tries = tries or self._begin()
            self._give_up_or_wait(failure, tries)

    def close(self) -> None:
        if not self.closed:
            self._hang_up()
        super().close()

    def _hang_up(self) -> None:
        if self._answer is not None:
            self._answer.close()
            self._answer = None
