"""Looks into one data file of a distributed checkpoint: small torch archives, side by side, as `.metadata` places them.

| archive of piece 1 | archive of piece 2 | ...        every byte owned by exactly one piece
"""

from collections.abc import Iterator

from components.integrity.dcp_metadata import Piece
from components.integrity.fault import Fault
from components.integrity.inspector import TensorType
from components.integrity.regions import Region, RegionReader
from components.integrity.torch_archive import Expected, Findings, archive_regions
from components.integrity.window import Window
from components.integrity.zip_directory import LOCAL_SIGNATURE


class DcpFileInspector:
    """Takes the archives' directories one by one as their bytes come by."""

    def __init__(self, path: str, window: Window, pieces: list[Piece]) -> None:
        self._window, self._found = window, Findings(path)
        self._position = 0
        self._num_opaque = 0
        self._reader = RegionReader(path, self._regions(pieces), self._found.report)

    @property
    def notes(self) -> list[str]:
        return self._found.notes

    @property
    def tensors(self) -> list[TensorType]:
        return []  # `.metadata` has them whole; here are pieces

    def feed(self, chunk: memoryview) -> None:
        self._reader.feed(chunk, self._position)
        self._position += len(chunk)

    def finish(self) -> list[Fault]:
        return self._found.faults

    def close(self) -> None:
        self._window.close()

    def _regions(self, pieces: list[Piece]) -> Iterator[Region]:
        size = self._window.size_bytes
        position = 0
        for piece in pieces:
            end = piece.offset + piece.length
            if piece.offset != position:
                kind = "overlaps the piece before it" if piece.offset < position else "leaves bytes before it unused"
                self._found.fault(kind, piece.offset, tensor=piece.name, expected=f"byte {position}")
            if end > size:
                self._found.fault(
                    "lies beyond the end of the file", piece.offset, tensor=piece.name, expected=f"end {end}",
                    actual=f"{size} bytes",
                )  # fmt: skip
            elif piece.offset >= position:
                yield from self._piece(piece, end)
            position = max(position, end)
        if position < size:
            self._found.fault("has bytes that no piece owns", position, actual=f"{size - position} bytes")

    def _piece(self, piece: Piece, end: int) -> Iterator[Region]:
        if piece.is_transformed:
            self._found.note("digest only, its pieces are compressed")
        elif piece.dtype is None and self._window.read(piece.offset, 4) != LOCAL_SIGNATURE:
            self._found.note("digest only of objects that torch.save did not write")
        else:
            expected = Expected(piece.name, piece.dtype, piece.shape)
            yield from archive_regions(self._window, piece.offset, end, self._found, expected=expected)
