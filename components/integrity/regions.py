"""Checks parts of a file as it streams by: CRC-32 of whole regions, NaN and Inf of the tensors inside them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from components.integrity.fault import Fault

if TYPE_CHECKING:
    from components.integrity.nonfinite import NonFinite

MAX_FAULTS = 50
"""Findings kept of one file: a destroyed one has thousands."""


@dataclass(frozen=True, slots=True)
class Scan:
    """Values to look at; `begin` and `end` count from the start of the file."""

    begin: int
    end: int
    dtype: str
    tensor: str


@dataclass(frozen=True, slots=True)
class Region:
    """Bytes that belong together. `scans` lie inside it, in order, without overlap."""

    begin: int
    end: int
    scans: tuple[Scan, ...] = ()
    crc32: int | None = None
    tensor: str | None = None
    """What a wrong CRC is reported under."""
    entry: str = ""
    """Name inside the archive, where there is one."""


class RegionReader:
    """Fed a file's bytes in order, calls `report` with what is wrong.

    `regions` come in order and without overlap, and are taken one at a time, so that a file may have very many.
    """

    def __init__(self, path: str, regions: Iterator[Region], report: Callable[[Fault], None]) -> None:
        self._path, self._regions, self._report = path, regions, report
        self._region = next(regions, None)
        self._next_scan = self._crc = 0
        self._partial = bytearray()
        self._is_reported = False

    def feed(self, chunk: memoryview, start: int) -> None:
        """`chunk` begins at byte `start`, where the one before it ended."""
        stop = start + len(chunk)
        while self._region is not None and self._region.begin < stop:
            region = self._region
            if region.crc32 is not None:
                from isal.isal_zlib import crc32

                self._crc = crc32(chunk[max(region.begin - start, 0) : region.end - start], self._crc)
            self._scan(region.scans, chunk, start)
            if region.end > stop:
                return
            self._finish(region)

    def _finish(self, region: Region) -> None:
        if region.crc32 is not None and self._crc != region.crc32:
            of = f" of {region.entry}" if region.entry else ""
            self._report(
                Fault(self._path, f"CRC-32{of} differs", region.begin, region.tensor, f"{region.crc32:08x}",
                      f"{self._crc:08x}")
            )  # fmt: skip
        self._region = next(self._regions, None)
        self._next_scan = self._crc = 0
        self._partial, self._is_reported = bytearray(), False

    def _scan(self, scans: tuple[Scan, ...], chunk: memoryview, start: int) -> None:
        """Look at the values in `chunk`; one may straddle two chunks."""
        from components.integrity.nonfinite import first_nonfinite, scanned_size

        stop = start + len(chunk)
        while self._next_scan < len(scans) and scans[self._next_scan].begin < stop:
            scan = scans[self._next_scan]
            size = scanned_size(scan.dtype)
            if size is not None and scan.end > start and not self._is_reported:
                begin, end = max(scan.begin, start), min(scan.end, stop)
                part = chunk[begin - start : end - start]
                if self._partial:
                    missing = size - len(self._partial)
                    self._partial += part[:missing]
                    part, begin = part[missing:], begin + missing
                    if len(self._partial) == size:
                        self._not_finite(scan, begin - size, first_nonfinite(memoryview(self._partial), scan.dtype))
                        self._partial = bytearray()
                whole = len(part) - len(part) % size
                if whole and not self._is_reported:
                    self._not_finite(scan, begin, first_nonfinite(part[:whole], scan.dtype))
                self._partial += part[whole:]
            if scan.end > stop:
                return
            self._next_scan += 1
            self._partial, self._is_reported = bytearray(), False

    def _not_finite(self, scan: Scan, begin: int, found: "NonFinite | None") -> None:
        if found is not None:
            self._is_reported = True  # one finding a tensor: a poisoned one has millions
            offset = begin + found.offset
            self._report(Fault(self._path, "is not finite", offset, scan.tensor, "finite values", found.value))
