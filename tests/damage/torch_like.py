"""Builds files as torch writes them, byte by byte and without torch, so that they can lie.

A pickle holds names of functions and classes; stand-ins that bear those names are all it takes to write them.
"""

import io
import struct
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


class Named:
    """A global: pickled by its name, whatever it is."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name


class Called:
    """A call: pickled as `func(*args)`."""

    def __init__(self, func: Named, *args: Any) -> None:
        self.func, self.args = func, args


class Instance:
    """An object of a class, with its fields."""

    def __init__(self, cls: Named, **fields: Any) -> None:
        self.cls, self.fields = cls, fields


@dataclass(frozen=True)
class Storage:
    """A reference to bytes outside the pickle."""

    kind: str
    key: str
    count: int


def pickled(value: Any) -> bytes:
    """Protocol 2, as torch.save writes it, by hand: what it names need not exist."""
    return b"\x80\x02" + _encode(value) + b"."


def _encode(value: Any) -> bytes:
    match value:
        case None:
            return b"N"
        case bool():
            return b"\x88" if value else b"\x89"
        case int() if -(1 << 31) <= value < 1 << 31:
            return b"J" + struct.pack("<i", value)
        case int():
            raw = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
            return b"\x8b" + struct.pack("<i", len(raw)) + raw
        case float():
            return b"G" + struct.pack(">d", value)
        case str():
            raw = value.encode()
            return b"X" + struct.pack("<I", len(raw)) + raw
        case Named():
            return b"c" + value.module.encode() + b"\n" + value.name.encode() + b"\n"
        case Called():
            return _encode(value.func) + _encode(value.args) + b"R"
        case Instance():
            return _encode(value.cls) + b")\x81" + _encode(value.fields) + b"b"
        case Storage():
            kind = Named("torch.storage" if value.kind == "UntypedStorage" else "torch", value.kind)
            return _encode(("storage", kind, value.key, "cpu", value.count)) + b"Q"
        case tuple():
            return b"(" + b"".join(map(_encode, value)) + b"t"
        case list():
            return b"](" + b"".join(map(_encode, value)) + b"e"
        case dict():
            return b"}(" + b"".join(_encode(key) + _encode(item) for key, item in value.items()) + b"u"
    raise TypeError(type(value))


ORDERED_DICT = Named("collections", "OrderedDict")
REBUILD = Named("torch._utils", "_rebuild_tensor_v2")
METADATA = "torch.distributed.checkpoint.metadata"


def tensor(
    key: str, shape: Sequence[int], *, kind: str = "FloatStorage", count: int | None = None, offset: int = 0
) -> Called:
    """A contiguous tensor in storage `key`, which has as many values as the tensor unless told otherwise."""
    total, strides = 1, []
    for size in reversed(shape):
        strides.insert(0, total)
        total *= size
    storage = Storage(kind, key, total if count is None else count)
    return Called(REBUILD, storage, offset, tuple(shape), tuple(strides), False, Called(ORDERED_DICT))


def archive(value: Any, storages: Mapping[str, bytes], *, pickle: bytes | None = None, name: str = "archive") -> bytes:
    """A torch file: the pickle of `value` (or `pickle` as it is) and the bytes of each storage."""
    entries = {"data.pkl": pickled(value) if pickle is None else pickle, "byteorder": b"little"}
    entries |= {f"data/{key}": data for key, data in storages.items()} | {"version": b"3\n"}
    return zipped({f"{name}/{path}": data for path, data in entries.items()})


def zipped(entries: Mapping[str, bytes], *, method: int = zipfile.ZIP_STORED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as file:
        for path, data in entries.items():
            file.writestr(zipfile.ZipInfo(path), data, method)
    return stream.getvalue()


def size(*sizes: int) -> Called:
    return Called(Named("torch", "Size"), tuple(sizes))


def chunk(offsets: Sequence[int], sizes: Sequence[int]) -> Instance:
    return Instance(Named(METADATA, "ChunkStorageMetadata"), offsets=size(*offsets), sizes=size(*sizes))


def described(shape: Sequence[int], chunks: Sequence[Instance], *, dtype: str = "float32") -> Instance:
    """What `.metadata` says about one tensor."""
    properties = Instance(Named(METADATA, "TensorProperties"), dtype=Named("torch", dtype), requires_grad=False)
    return Instance(
        Named(METADATA, "TensorStorageMetadata"), properties=properties, size=size(*shape), chunks=list(chunks)
    )


def placed(name: str, offsets: Sequence[int], file: str, offset: int, length: int) -> tuple[Instance, Instance]:
    """Where `.metadata` says a chunk lies."""
    index = Instance(Named(METADATA, "MetadataIndex"), fqn=name, offset=size(*offsets), index=0)
    info = Named("torch.distributed.checkpoint.filesystem", "_StorageInfo")
    return index, Instance(info, relative_path=file, offset=offset, length=length)


def metadata(tensors: Mapping[str, Any], places: Sequence[tuple[Instance, Instance]]) -> bytes:
    """A `.metadata`."""
    value = Instance(
        Named(METADATA, "Metadata"), state_dict_metadata=dict(tensors), planner_data=None, storage_data=dict(places)
    )
    return pickled(value)
