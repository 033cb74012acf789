"""Reads the `.metadata` of a distributed checkpoint without unpickling it: which tensor lies where in which file.

Only the classes that torch's own writers put there are admitted. What comes out are plain values: `DcpTable`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from components.integrity.dtypes import of_torch_dtype
from components.integrity.fault import Fault
from components.integrity.inspector import TensorType
from components.integrity.pickle_reader import read_pickle
from components.integrity.pickle_values import BadPickle, Made, Pairs, RunsCode, Symbol, make
from components.integrity.safe_path import fault_of_path
from components.integrity.torch_pickle import shown, size_of_tensor

METADATA_NAME = ".metadata"
MAX_METADATA_BYTES = 16 << 20
"""About 20 000 pieces of tensors; a larger table would not fit into the memory a verifier may use."""
_MAX_COMPARISONS = 5_000_000
_ADMITTED = {
    "torch.distributed.checkpoint.metadata": {
        "Metadata", "MetadataIndex", "TensorStorageMetadata", "BytesStorageMetadata", "ChunkStorageMetadata",
        "TensorProperties", "StorageMeta", "_MEM_FORMAT_ENCODING",
    },
    "torch.distributed.checkpoint.filesystem": {"_StorageInfo", "_StoragePrefix"},
    "torch.distributed.checkpoint._fsspec_filesystem": {"_StorageInfo"},
    "torch.distributed._shard.sharded_tensor.metadata": {
        "ShardedTensorMetadata", "TensorProperties", "MEM_FORMAT_ENCODING",
    },
    "torch.distributed._shard.metadata": {"ShardMetadata"},
    "torch.distributed.remote_device": {"_remote_device"},
    "megatron.core.dist_checkpointing.strategies.torch": {"MCoreMetadata"},
    "torch.serialization": {"_get_layout"},
    "pathlib": {"PosixPath", "PurePosixPath", "WindowsPath", "PureWindowsPath", "Path"},
    "pathlib._local": {"PosixPath", "PurePosixPath", "WindowsPath", "PureWindowsPath", "Path"},
    "collections": {"OrderedDict"},
    "builtins": {"set", "frozenset", "slice"},
    "__builtin__": {"set", "frozenset", "slice"},
    "copyreg": {"_reconstructor"},
}  # fmt: skip
_OF_TORCH = {"Size", "device", "strided", "sparse_coo", "contiguous_format", "preserve_format", "channels_last"}


@dataclass(slots=True)
class Piece:
    """A chunk of a tensor, or an object, at a place in a file."""

    name: str
    offset: int
    length: int
    dtype: str | None
    """None: an object."""
    shape: tuple[int, ...] = ()
    is_transformed: bool = False
    """Compressed or otherwise not as torch.save wrote it."""


@dataclass
class DcpTable:
    """What one `.metadata` says."""

    pieces: dict[str, list[Piece]] = field(default_factory=dict)
    """By file, relative to the folder of `.metadata`, in the order of their bytes."""
    tensors: list[TensorType] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read_dcp_metadata(data: bytes, *, path: str) -> DcpTable:
    """The table in `data`, with everything that contradicts itself. Raises BadPickle and TooLarge."""
    root = _state_of(read_pickle(data, call=_call, admit=_admit), "Metadata", "MCoreMetadata")
    if root is None:
        raise BadPickle("is not the metadata of a distributed checkpoint", 0)
    table = DcpTable()
    reader = _TableReader(table, path)
    reader.read_tensors(root.get("state_dict_metadata"))
    reader.read_places(root.get("storage_data"))
    return table


def _admit(symbol: Symbol) -> None:
    if symbol.name in _ADMITTED.get(symbol.module, ()):
        return
    if symbol.module == "torch" and (symbol.name in _OF_TORCH or of_torch_dtype(symbol.name) is not None):
        return
    raise RunsCode(f"names {shown(str(symbol))}, which no distributed checkpoint needs", 0)


def _call(func: Symbol, args: tuple[Any, ...]) -> Any:
    if func.module == "torch" and func.name == "Size" and len(args) == 1 and isinstance(args[0], tuple):
        return args[0]
    return make(func, args)


def _state_of(value: Any, *names: str) -> dict[str, Any] | None:
    """Fields of a dataclass of one of these names; None when `value` is something else."""
    if not isinstance(value, Made) or not isinstance(value.maker, Symbol) or value.maker.name not in names:
        return None
    state = value.state if value.state is not None else Pairs()
    if not isinstance(state, Pairs):
        return None
    return {state[i]: state[i + 1] for i in range(0, len(state), 2) if isinstance(state[i], str)}


@dataclass(slots=True)
class _Known:
    dtype: str | None
    shape: tuple[int, ...]
    chunks: dict[tuple[int, ...], tuple[int, ...]]
    """Sizes by offsets; taken out one by one as their places are found."""


class _TableReader:
    def __init__(self, table: DcpTable, path: str) -> None:
        self._table, self._path = table, path
        self._known: dict[str, _Known] = {}

    def _fault(self, problem: str, tensor: str | None, *, expected: str = "", actual: str = "") -> None:
        if len(self._table.faults) < 50:
            self._table.faults.append(Fault(self._path, problem, None, tensor, expected, actual))

    def read_tensors(self, entries: Any) -> None:
        for name, value in _entries(entries, "state_dict_metadata"):
            if _state_of(value, "BytesStorageMetadata") is not None:
                self._known[name] = _Known(None, (), {(): ()})
                continue
            state = _state_of(value, "TensorStorageMetadata")
            known = _tensor(state) if state is not None else None
            if known is None:
                self._fault("describes a tensor in a way that cannot be read", shown(name))
                continue
            assert known.dtype is not None
            self._known[name] = known
            self._table.tensors.append(TensorType(shown(name), known.dtype, known.shape))
            problem = _fault_of_cover(known)
            if problem:
                self._fault(problem, shown(name), expected=f"every value of {list(known.shape)} once")

    def read_places(self, entries: Any) -> None:
        if not isinstance(entries, Pairs):
            raise BadPickle("has no storage_data", 0)
        for i in range(0, len(entries), 2):
            self._read_place(entries[i], entries[i + 1])
        for name, known in self._known.items():
            for offsets in known.chunks:
                where = f" chunk {list(offsets)}" if known.dtype is not None else ""
                self._fault(f"does not say where{where} lies", shown(name))
        for pieces in self._table.pieces.values():
            pieces.sort(key=lambda piece: piece.offset)

    def _read_place(self, index: Any, place: Any) -> None:
        key, info = _state_of(index, "MetadataIndex"), _state_of(place, "_StorageInfo")
        name = key.get("fqn") if key is not None else None
        if key is None or info is None or not isinstance(name, str):
            self._fault("has a place that cannot be read", None)
            return
        file, offset, length = info.get("relative_path"), info.get("offset"), info.get("length")
        if not isinstance(file, str) or fault_of_path(file) or not _is_count(offset) or not _is_count(length):
            self._fault("has an impossible place", shown(name), actual=shown(f"{file} {offset} {length}"))
            return
        known = self._known.get(name)
        chunk = size_of_tensor(key["offset"]) if key.get("offset") is not None else ()
        if known is not None and known.dtype is not None and key.get("offset") is None and len(known.chunks) == 1:
            chunk = next(iter(known.chunks))
        if known is None or chunk is None or chunk not in known.chunks:
            self._fault("has a place for something it does not describe, or twice", shown(name))
            return
        piece = Piece(
            shown(name), offset, length, known.dtype, known.chunks.pop(chunk), bool(info.get("transform_descriptors"))
        )
        self._table.pieces.setdefault(file, []).append(piece)


def _entries(value: Any, what: str) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, Pairs):
        raise BadPickle(f"has no {what}", 0)
    for i in range(0, len(value), 2):
        if not isinstance(value[i], str):
            raise BadPickle(f"has a {what} whose keys are not names", 0)
        yield value[i], value[i + 1]


def _tensor(state: dict[str, Any]) -> _Known | None:
    properties, shape, chunks = state.get("properties"), size_of_tensor(state.get("size")), state.get("chunks")
    dtype = _dtype(properties)
    if dtype is None or shape is None or not isinstance(chunks, list) or isinstance(chunks, Pairs):
        return None
    sizes: dict[tuple[int, ...], tuple[int, ...]] = {}
    for chunk in chunks:
        fields = _state_of(chunk, "ChunkStorageMetadata")
        offsets = size_of_tensor(fields.get("offsets")) if fields is not None else None
        lengths = size_of_tensor(fields.get("sizes")) if fields is not None else None
        if offsets is None or lengths is None or len(offsets) != len(shape) or len(lengths) != len(shape):
            return None
        if offsets in sizes:
            return None
        sizes[offsets] = lengths
    return _Known(dtype, shape, sizes)


def _dtype(properties: Any) -> str | None:
    if not isinstance(properties, Made):
        return None
    state = properties.state
    first = state[0] if isinstance(state, tuple) and state else None
    if isinstance(state, Pairs):
        first = next((state[i + 1] for i in range(0, len(state), 2) if state[i] == "dtype"), None)
    return of_torch_dtype(first.name) if isinstance(first, Symbol) and first.module == "torch" else None


def _fault_of_cover(known: _Known) -> str:
    """Why the chunks do not hold every value exactly once; empty when they do."""
    total = 0
    boxes = []
    for offsets, lengths in known.chunks.items():
        if any(begin + size > limit for begin, size, limit in zip(offsets, lengths, known.shape, strict=True)):
            return f"has a chunk outside its tensor, at {list(offsets)}"
        volume = _volume(lengths)
        total += volume
        if volume and lengths:
            boxes.append((offsets, tuple(begin + size for begin, size in zip(offsets, lengths, strict=True))))
    if total != _volume(known.shape):
        return "has chunks that cover too little or too much of their tensor"
    return _fault_of_overlap(sorted(boxes))


def _fault_of_overlap(boxes: list[tuple[tuple[int, ...], tuple[int, ...]]]) -> str:
    """Sweep along the first axis: only boxes that share a place on it are compared."""
    open_boxes: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    left = _MAX_COMPARISONS
    for low, high in boxes:
        open_boxes = [box for box in open_boxes if box[1][0] > low[0]]
        left -= len(open_boxes)
        if left < 0:
            return ""
        for other_low, other_high in open_boxes:
            if all(a < d and c < b for a, b, c, d in zip(low, high, other_low, other_high, strict=True)):
                return f"has chunks that overlap, at {list(low)}"
        open_boxes.append((low, high))
    return ""


def _volume(sizes: tuple[int, ...]) -> int:
    volume = 1
    for size in sizes:
        volume *= size
    return volume


def _is_count(value: Any) -> TypeGuard[int]:
    return type(value) is int and 0 <= value < 1 << 62
