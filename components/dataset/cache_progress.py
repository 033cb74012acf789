"""How far a cache is filled, at which rate, and how long it will still take; safe in several threads."""

import threading
import time

from components.contracts.units import format_duration, format_size


class FillProgress:
    """Counts files and bytes of one fill."""

    def __init__(self, num_files: int, num_bytes: int) -> None:
        self.num_files, self.num_bytes = num_files, num_bytes
        self.num_found = self.bytes_found = self.num_fetched = self.bytes_received = 0
        self._began_at = time.monotonic()
        self._lock = threading.Lock()

    def begin_downloads(self) -> None:
        """Rates count from now."""
        self._began_at = time.monotonic()

    def found(self, num_bytes: int) -> None:
        """One file was there, or somebody else has brought it."""
        with self._lock:
            self.num_found += 1
            self.bytes_found += num_bytes

    def received(self, num_bytes: int) -> None:
        with self._lock:
            self.bytes_received += num_bytes

    def undo(self, num_bytes: int) -> None:
        """They were not the right ones."""
        with self._lock:
            self.bytes_received -= num_bytes

    def fetched(self) -> None:
        """One file is whole."""
        with self._lock:
            self.num_fetched += 1

    def line(self) -> str:
        """`data: 12 of 40 files, 1.2 of 4.0 GiB, 210.0 MiB/s, 14s left`."""
        seconds = max(1e-3, time.monotonic() - self._began_at)
        with self._lock:
            done, here = self.num_found + self.num_fetched, self.bytes_found + self.bytes_received
            rate = self.bytes_received / seconds
        left = max(0, self.num_bytes - here)
        end = f", {format_duration(float(round(left / rate)))} left" if rate > 0 else ""
        return (
            f"data: {done} of {self.num_files} files, {format_size(here)} of {format_size(self.num_bytes)}, "
            f"{format_size(rate)}/s{end}"
        )

    def summary(self) -> str:
        """What came from where, when all is there."""
        seconds = time.monotonic() - self._began_at
        text = f"data: {self.num_found} of {self.num_files} files were in the cache ({format_size(self.bytes_found)})"
        if not self.num_fetched:
            return text
        rate = format_size(self.bytes_received / max(1e-3, seconds))
        return f"{text}, {self.num_fetched} fetched ({format_size(self.bytes_received)}) in {seconds:.1f} s, {rate}/s"
