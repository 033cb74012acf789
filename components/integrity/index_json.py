"""Holds an index such as `model.safetensors.index.json` against the files it speaks of, in both directions.

{"metadata": {"total_size": 16}, "weight_map": {"layer.0.weight": "model-00001-of-00002.safetensors", ...}}
"""

import json
import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import Any

from components.integrity.dtypes import BITS, size_of
from components.integrity.fault import Fault
from components.integrity.inspector import TensorType
from components.integrity.torch_pickle import shown

MAX_INDEX_BYTES = 16 << 20
SUFFIXES = (".safetensors.index.json", ".bin.index.json")
_NUMBERED = re.compile(r"-\d{5}-of-\d{5}\.(safetensors|bin)$")


def index_faults(
    path: str, data: bytes, *, files: frozenset[str], tensors: Mapping[str, list[TensorType]]
) -> Iterator[Fault]:
    """What the index at `path` says that is not so. `tensors` has the files that could be looked into; each name is
    relative to the checkpoint.
    """
    folder = posixpath.dirname(path)
    found = _weight_map(data)
    if isinstance(found, str):
        yield Fault(path, found)
        return
    weight_map, total_size = found
    named: dict[str, set[str]] = {}
    for tensor, file in weight_map.items():
        named.setdefault(posixpath.join(folder, file), set()).add(shown(tensor))
    for file in sorted(named):
        if file not in files:
            first = min(named[file])
            yield Fault(path, f"names {shown(file)}, which is missing", None, first)
    for file in sorted(named.keys() & tensors.keys()):
        have = {tensor.name for tensor in tensors[file]}
        for name in sorted(named[file] - have)[:20]:
            yield Fault(path, f"names a tensor that {file} does not hold", None, name)
        for name in sorted(have - named[file])[:20]:
            yield Fault(file, f"holds a tensor that {posixpath.basename(path)} does not place here", None, name)
    stem = posixpath.basename(path).removesuffix(".index.json").rsplit(".", 1)[0]
    for file in sorted(files - named.keys()):
        name = posixpath.basename(file)
        if posixpath.dirname(file) == folder and name.startswith(f"{stem}-") and _NUMBERED.search(name):
            yield Fault(file, f"is not named by {posixpath.basename(path)}")
    # torch files may share a storage between tensors, so only safetensors add up.
    if total_size is not None and path.endswith(SUFFIXES[0]) and named.keys() <= tensors.keys():
        total = sum(_size(tensor) for file in named for tensor in tensors[file])
        if total != total_size:
            yield Fault(path, "has another total_size than its files", None, None, f"{total_size} bytes",
                        f"{total} bytes")  # fmt: skip


def _weight_map(data: bytes) -> tuple[dict[str, str], int | None] | str:
    if len(data) > MAX_INDEX_BYTES:
        return f"is larger than {MAX_INDEX_BYTES} bytes, which is too large to look into"
    if data.count(b"{") + data.count(b"[") > 1000:
        return "is nested like no index of tensors"
    try:
        value: Any = json.loads(data)
    except (ValueError, RecursionError):
        return "is not JSON"
    weight_map = value.get("weight_map") if isinstance(value, dict) else None
    if not isinstance(weight_map, dict) or not all(isinstance(file, str) for file in weight_map.values()):
        return "has no weight_map of names to files"
    metadata = value.get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    if isinstance(total, float) and total.is_integer() and abs(total) < 1 << 62:
        total = int(total)
    return weight_map, total if type(total) is int else None


def _size(tensor: TensorType) -> int:
    count = 1
    for size in tensor.shape:
        count *= size
    return count * _bits(tensor.dtype) // 8


def _bits(dtype: str) -> int:
    return BITS.get(dtype) or size_of(dtype) * 8
