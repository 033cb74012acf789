"""Format mds: a shard of MosaicML Streaming, byte for byte as its MDSWriter would write it.

uint32 n, uint32 offset[n + 1] from the start of the file, the configuration as JSON, then the samples. A sample is the
uint32 sizes of its fields of variable size, then the fields, all in the order of their names.
"""

import json
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
import xxhash

from components.contracts.dataset import FieldType, SampleField, ShardContent
from components.dataset.batches import Batch
from components.dataset.output import Output, Outputs
from components.integrity.fault import Fault

SUFFIXES = ("mds",)
HASHES = ("sha256", "xxh3_64")
MAX_SHARD_BYTES = (1 << 32) - 1
"""Offsets are 32 bits."""
_ENCODINGS: dict[FieldType, str] = {"bytes": "bytes", "text": "str", "int": "int", "float": "float64", "json": "json"}
_FIXED: dict[FieldType, np.dtype[Any]] = {"int": np.dtype("<i8"), "float": np.dtype("<f8")}
_OFFSET = np.dtype("<u4")


class MdsWriter:
    """Writes the samples of one shard, then its head before them."""

    def __init__(self, fields: tuple[SampleField, ...], outputs: Outputs) -> None:
        self._fields, self._outputs = sorted(fields, key=lambda field: field.name), outputs
        self._body = outputs.new("body")
        self._sizes = list[Any]()
        self.num_samples = 0

    def add(self, batch: Batch) -> None:
        """Samples whose columns are the fields of the format."""
        place = {column.name: values for column, values in zip(batch.columns, batch.values, strict=True)}
        columns = [_encoded(place[field.name], field.type) for field in self._fields]
        sizes = [np.fromiter(map(len, column), dtype=_OFFSET, count=len(column)) for column in columns]
        variable = [size for size, field in zip(sizes, self._fields, strict=True) if field.type not in _FIXED]
        heads = np.stack(variable, axis=1).tobytes() if variable else b""
        width = len(variable) * _OFFSET.itemsize
        parts = [heads[at : at + width] for at in range(0, len(heads), width)] if width else [b""] * len(batch.keys)
        self._body.write(b"".join([part for row in zip(parts, *columns, strict=True) for part in row]))
        self._sizes.append(sum(size.astype(np.int64) for size in sizes) + width)
        self.num_samples += len(batch.keys)

    def finish(self) -> list[Output]:
        """Put head and samples together."""
        sizes = np.concatenate([np.zeros(1, dtype=np.int64), *self._sizes])
        config = configuration(self._fields)
        start = _OFFSET.itemsize * (1 + len(sizes)) + len(config)
        offsets = start + np.cumsum(sizes)
        file = self._outputs.new("mds")
        file.write(np.array([self.num_samples], dtype=_OFFSET).tobytes())
        file.write(offsets.astype(_OFFSET).tobytes())
        file.write(config)
        file.append(self._body)
        file.end()
        self._body.close()
        return [file]


def hashes_of(file: Output, *, sha256: str) -> dict[str, str]:
    """The digests that `index.json` carries, so that readers can `validate_hash`."""
    digest = xxhash.xxh3_64()
    for data in file.read():
        digest.update(data)
    return {"sha256": sha256, "xxh3_64": digest.hexdigest()}


def configuration(fields: list[SampleField]) -> bytes:
    """What stands in every shard and, beside its digests, in the index."""
    return json.dumps(described(fields), sort_keys=True).encode()


def described(fields: list[SampleField]) -> dict[str, Any]:
    """The columns, as index.json spells them."""
    ordered = sorted(fields, key=lambda field: field.name)
    return {
        "version": 2, "format": "mds", "compression": None, "hashes": list(HASHES), "size_limit": None,
        "column_names": [field.name for field in ordered],
        "column_encodings": [_ENCODINGS[field.type] for field in ordered],
        "column_sizes": [_FIXED[field.type].itemsize if field.type in _FIXED else None for field in ordered],
    }  # fmt: skip


def _encoded(values: list[Any], kind: FieldType) -> list[Any]:
    if kind not in _FIXED:
        return values
    number = int if kind == "int" else float
    packed = np.array([number(bytes(value)) for value in values], dtype=_FIXED[kind]).tobytes()
    return [packed[at : at + 8] for at in range(0, len(packed), 8)]


def check(file: BinaryIO, name: str, content: ShardContent, fields: tuple[SampleField, ...]) -> Iterator[Fault]:
    """What is wrong with a shard opened at its start: count, offsets, configuration, sizes inside each sample."""
    size_bytes = content.files[0].size_bytes
    count = int.from_bytes(file.read(_OFFSET.itemsize), "little")
    if count != content.num_samples:
        yield Fault(
            name, "says another number of samples", offset=0, expected=str(content.num_samples), actual=str(count)
        )
        return
    offsets = np.frombuffer(file.read(_OFFSET.itemsize * (count + 1)), dtype=_OFFSET).astype(np.int64)
    config = configuration(list(fields))
    start = _OFFSET.itemsize * (count + 2)
    if (found := file.read(len(config))) != config:
        place = next((at for at, (a, b) in enumerate(zip(found, config, strict=False)) if a != b), len(found))
        yield Fault(
            name, "has another configuration than the data set", offset=start + place,
            expected=config[place : place + 8].decode(), actual=repr(found[place : place + 8]),
        )  # fmt: skip
    wanted = np.array([start + len(config), size_bytes])
    if len(offsets) < count + 1 or (offsets[[0, -1]] != wanted).any() or (np.diff(offsets) < 0).any():
        wrong = np.flatnonzero(np.r_[offsets[:1] != wanted[0], np.diff(offsets) < 0, offsets[-1:] != wanted[1]])
        place = min(int(wrong[0]), count) if len(wrong) else len(offsets)
        yield Fault(
            name, f"has an impossible offset of sample {place}", offset=_OFFSET.itemsize * (1 + place),
            actual=str(offsets[place]) if place < len(offsets) else "the end",
        )  # fmt: skip
        return
    yield from _sample_faults(file, name, offsets, fields)


def _sample_faults(file: BinaryIO, name: str, offsets: Any, fields: tuple[SampleField, ...]) -> Iterator[Fault]:
    fixed = sum(_FIXED[field.type].itemsize for field in fields if field.type in _FIXED)
    num_variable = sum(field.type not in _FIXED for field in fields)
    head = num_variable * _OFFSET.itemsize
    for number, (start, end) in enumerate(zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)):
        data = file.read(end - start)
        if len(data) < end - start:
            yield Fault(
                name, f"ends inside sample {number}", offset=start + len(data), expected=f"{end - start} bytes of it",
                actual=str(len(data)),
            )  # fmt: skip
            return
        sizes = np.frombuffer(data[:head], dtype=_OFFSET) if len(data) >= head else np.empty(0, dtype=_OFFSET)
        told = int(sizes.sum()) + head + fixed
        if len(sizes) < num_variable or told != len(data):
            yield Fault(
                name, f"sample {number} has fields of other sizes than its own", offset=start,
                expected=f"{len(data)} bytes", actual=str(told),
            )  # fmt: skip
            return
