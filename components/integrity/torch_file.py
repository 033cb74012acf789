"""Looks into a .pt, .pth, .ckpt or .bin file: the zip torch writes, every CRC-32, every tensor, no pickle run."""

from collections.abc import Iterator

from components.integrity.fault import Fault
from components.integrity.inspector import TensorType
from components.integrity.regions import Region, RegionReader
from components.integrity.torch_archive import MAX_PICKLE_BYTES, Findings, archive_regions
from components.integrity.torch_pickle import code_in_pickles
from components.integrity.window import Window
from components.integrity.zip_directory import END_SIGNATURE, LOCAL_SIGNATURE

_TORCH_ALWAYS = (".pt", ".pth")
_LEGACY = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
_END_BYTES = 22


class TorchFileInspector:
    """Reads the archive's directory when it is made, then checks the bytes as they come."""

    def __init__(self, path: str, window: Window) -> None:
        self._window, self._found = window, Findings(path)
        self._position = 0
        self._reader = RegionReader(path, self._regions(path), self._found.report)

    @property
    def notes(self) -> list[str]:
        return self._found.notes

    @property
    def tensors(self) -> list[TensorType]:
        return self._found.tensors

    def feed(self, chunk: memoryview) -> None:
        self._reader.feed(chunk, self._position)
        self._position += len(chunk)

    def finish(self) -> list[Fault]:
        return self._found.faults

    def close(self) -> None:
        self._window.close()

    def _regions(self, path: str) -> Iterator[Region]:
        window, found = self._window, self._found
        size = window.size_bytes
        head = window.read(0, len(_LEGACY))
        is_torch = path.endswith(_TORCH_ALWAYS)
        # One of the two ends is enough to know what the file was before it was damaged.
        if head.startswith(LOCAL_SIGNATURE) or window.read(size - _END_BYTES, 4) == END_SIGNATURE:
            yield from archive_regions(window, 0, size, found)
        elif head == _LEGACY:
            self._look_for_code(count=5)
            found.note("digest only, it is of the format before torch 1.6")
        elif head[:1] == b"\x80" and head[1:2] <= b"\x05":
            self._look_for_code(count=1)
            found.note("digest only, it is a plain pickle")
        elif not size and path.endswith((*_TORCH_ALWAYS, ".ckpt", ".bin")):
            found.fault("is empty", 0)
        elif is_torch and b"\0" * len(head) == head:
            found.fault("begins with zeros where a torch file begins with PK", 0)
        elif is_torch:
            found.fault("is not a torch file", 0, expected="PK, or a pickle", actual=repr(head[:4]))
        else:
            found.note("digest only, its format is not looked into")

    def _look_for_code(self, *, count: int) -> None:
        error = code_in_pickles(self._window.read(0, MAX_PICKLE_BYTES), count=count)
        if error is not None:
            self._found.fault(error.problem, error.offset)
