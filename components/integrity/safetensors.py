"""Reads a safetensors file as it streams by: header bounds, complete coverage, NaN and Inf.

    8 bytes little-endian header length | JSON {"name": {"dtype", "shape", "data_offsets": [begin, end]}, ...} | data

The header is not trusted: its length, every number in it and its nesting are bounded before anything is allocated.
"""

import json
import math
import reprlib
import sys
from dataclasses import dataclass
from typing import Any

from components.integrity.dtypes import BITS
from components.integrity.fault import Fault
from components.integrity.inspector import ONE_TABLE_AT_A_TIME, TensorType
from components.integrity.regions import MAX_FAULTS, Region, RegionReader, Scan

_MAX_HEADER_BYTES = 100_000_000
"""The format's own limit."""
_LOOKED_INTO_BYTES = 6 << 20
"""About 70 000 tensors; a larger header would not fit into the memory a verifier may use."""
_MAX_RANK = 64
_SHORTEST_ENTRY_BYTES = 48  # "a":{"dtype":"I8","shape":[],"data_offsets":[0,1]}


@dataclass(frozen=True, slots=True)
class Tensor:
    """One entry of the header; `begin` and `end` count from the start of the file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


class BadHeader(ValueError):
    """The header cannot be what it claims. `tensor` names the entry at fault, if one is."""

    def __init__(self, problem: str, *, tensor: str | None = None, expected: str = "", actual: str = "") -> None:
        super().__init__(problem)
        self.problem, self.tensor, self.expected, self.actual = problem, tensor, expected, actual


class SafetensorsInspector:
    """Fed the file's bytes in order; `finish` tells what is wrong with it."""

    def __init__(self, path: str, size_bytes: int) -> None:
        self.notes: list[str] = []
        self._path, self._size_bytes = path, size_bytes
        self._faults: list[Fault] = []
        self._position = 0
        self._header = bytearray()
        self._header_end = 8
        self._tensors: list[Tensor] | None = None
        self._reader: RegionReader | None = None
        self._is_skipping = False

    @property
    def tensors(self) -> list[TensorType]:
        return [TensorType(tensor.name, tensor.dtype, tensor.shape) for tensor in self._tensors or ()]

    def feed(self, chunk: memoryview) -> None:
        start, self._position = self._position, self._position + len(chunk)
        if self._is_skipping:
            return
        if self._reader is None:
            self._take_header(chunk)
        if self._reader is not None:
            self._reader.feed(chunk, start)

    def finish(self) -> list[Fault]:
        if self._tensors is None and not self._is_skipping:
            most, found = f"at least {self._header_end} bytes", f"{self._position} bytes"
            self._fault("ends inside its header", offset=self._position, expected=most, actual=found)
        return self._faults

    def _take_header(self, chunk: memoryview) -> None:
        taken = 0
        while taken < len(chunk) and self._tensors is None and not self._is_skipping:
            missing = self._header_end - len(self._header)
            self._header += chunk[taken : taken + missing]
            taken += missing
            if len(self._header) < self._header_end:
                return
            if self._header_end == 8:
                self._take_length(int.from_bytes(self._header, "little"))
            else:
                self._take_table()

    def _take_length(self, length: int) -> None:
        room = self._size_bytes - 8
        if length > room or length > _MAX_HEADER_BYTES or length < 2:
            most = min(room, _MAX_HEADER_BYTES)
            self._fault("has an impossible header length", offset=0, expected=f"2 to {most}", actual=str(length))
            self._is_skipping = True
        elif length > _LOOKED_INTO_BYTES:
            self.notes.append(f"digest only, its header of {length} bytes is too large to look into")
            self._is_skipping = True
        else:
            self._header_end = 8 + length

    def _take_table(self) -> None:
        text, self._header = bytes(self._header[8:]), bytearray()
        try:
            with ONE_TABLE_AT_A_TIME:
                self._tensors = read_table(text, begin=self._header_end, end=self._size_bytes)
        except BadHeader as error:
            self._fault(error.problem, tensor=error.tensor, offset=8, expected=error.expected, actual=error.actual)
            self._is_skipping = True
            return
        regions = (Region(item.begin, item.end, (_scan_of(item),)) for item in self._tensors)
        self._reader = RegionReader(self._path, regions, self._report)

    def close(self) -> None:
        """Nothing is open."""

    def _fault(
        self, problem: str, *, offset: int, tensor: str | None = None, expected: str = "", actual: str = ""
    ) -> None:
        self._report(Fault(self._path, problem, offset, tensor, expected, actual))

    def _report(self, fault: Fault) -> None:
        if len(self._faults) < MAX_FAULTS:
            self._faults.append(fault)


def _scan_of(tensor: Tensor) -> Scan:
    return Scan(tensor.begin, tensor.end, tensor.dtype, tensor.name)


def read_table(text: bytes, *, begin: int, end: int) -> list[Tensor]:
    """The tensors of a header, in the order of their bytes, which fill [begin, end) without gap. Raises BadHeader."""
    if text[:1] != b"{":
        raise BadHeader("has a header that is not a JSON object")
    if (text.count(b"[") + text.count(b"{")) * _SHORTEST_ENTRY_BYTES > 4 * len(text) + 1024:
        raise BadHeader("has a header nested like no table of tensors")
    try:
        pairs = _pairs_of(json.loads(text, object_pairs_hook=_keep))
    except (ValueError, RecursionError) as error:
        raise BadHeader(f"has a header that is not JSON: {str(error)[:200]}") from None
    if len({name for name, _ in pairs}) != len(pairs):
        raise BadHeader("names a tensor twice in its header")
    tensors = [_tensor(name, value, begin) for name, value in pairs if name != "__metadata__"]
    tensors.sort(key=lambda tensor: (tensor.begin, tensor.end))
    position = begin
    for tensor in tensors:
        if tensor.begin != position:
            kind = "overlaps the one before it" if tensor.begin < position else "leaves bytes before it unused"
            raise BadHeader(kind, tensor=tensor.name, expected=f"byte {position}", actual=f"byte {tensor.begin}")
        position = tensor.end
    if position != end:
        raise BadHeader("has a header that does not cover the file", expected=f"{end} bytes", actual=f"{position}")
    return tensors


class _Entry:
    """A JSON object with exactly the keys of a tensor: a tenth of a dict's size, and there may be 100 000."""

    __slots__ = ("dtype", "offsets", "shape")

    def __init__(self, value: dict[str, Any]) -> None:
        self.dtype, self.shape, self.offsets = value["dtype"], value["shape"], value["data_offsets"]


def _keep(pairs: list[tuple[str, Any]]) -> Any:
    if len(pairs) == 3 and {name for name, _ in pairs} == {"dtype", "shape", "data_offsets"}:
        return _Entry(dict(pairs))
    return pairs


def _pairs_of(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, _Entry):  # three tensors that bear the names of the keys
        return [("dtype", value.dtype), ("shape", value.shape), ("data_offsets", value.offsets)]
    assert isinstance(value, list)
    return value


def _tensor(name: str, value: Any, begin: int) -> Tensor:
    shown = "".join(letter if letter.isprintable() else "?" for letter in name[:200])
    if not isinstance(value, _Entry):
        raise BadHeader("needs exactly dtype, shape and data_offsets", tensor=shown)
    if not isinstance(value.dtype, str) or value.dtype not in BITS:
        raise BadHeader("has an unknown dtype", tensor=shown, actual=reprlib.repr(value.dtype))
    shape, offsets = value.shape, value.offsets
    if not _are_counts(shape) or len(shape) > _MAX_RANK:
        raise BadHeader("has an impossible shape", tensor=shown, actual=reprlib.repr(shape))
    if not _are_counts(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise BadHeader("has impossible data_offsets", tensor=shown, actual=reprlib.repr(offsets))
    num_bits = math.prod(shape) * BITS[value.dtype]
    size_bytes = offsets[1] - offsets[0]
    if num_bits != size_bytes * 8:
        told = f"{num_bits / 8:.0f} bytes for {value.dtype}{shape}"
        raise BadHeader("has another size than its shape", tensor=shown, expected=told, actual=f"{size_bytes} bytes")
    return Tensor(shown, sys.intern(value.dtype), tuple(shape), begin + offsets[0], begin + offsets[1])


def _are_counts(values: Any) -> bool:
    return isinstance(values, list) and all(type(value) is int and 0 <= value < 1 << 63 for value in values)
