"""Format webdataset: a plain tar, the fields of a sample one after the other as `<key>.<field>`, in the order of names.

Text, numbers and JSON get a suffix that WebDataset's decoders know: `caption` of text is the file `<key>.caption.txt`.
"""

import functools
import re
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np

from components.contracts.dataset import ShardContent
from components.dataset.batches import Batch, Column
from components.dataset.formats.ustar import (
    BLOCK,
    END,
    MAX_NAME_BYTES,
    BadHeader,
    headers,
    padded,
    read_header,
    split_name,
)
from components.dataset.output import Output, Outputs
from components.integrity.fault import Fault

SUFFIXES = ("tar",)
_SUFFIX_OF_TYPE = {"text": "txt", "int": "cls", "float": "json", "json": "json"}
_KEY_AND_FIELD = re.compile(r"((?:.*/)?[^./]+)\.([^/]+)", re.DOTALL)
_PLAIN_KEY = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_/-]*[A-Za-z0-9_-])?")
_SKIPPED_BY_READERS = re.compile(r"__[^/]*__($|/)")
_READ_BYTES = 1 << 20


class WebdatasetWriter:
    """Appends samples to one tar."""

    def __init__(self, outputs: Outputs) -> None:
        self._file = outputs.new("tar")
        self.num_samples = 0

    def add(self, batch: Batch) -> None:
        """Samples that `faults_of` finds nothing wrong with."""
        order = sorted(range(len(batch.columns)), key=lambda place: field_name(batch.columns[place]))
        endings = [b"." + field_name(batch.columns[place]).encode() for place in order]
        names = [key.encode() + ending for key in batch.keys for ending in endings]
        values = [batch.values[place] for place in order]
        data = values[0] if len(values) == 1 else [value for row in zip(*values, strict=True) for value in row]
        self._file.write(_blocks(names, data))
        self.num_samples += len(batch.keys)

    def finish(self) -> list[Output]:
        """Close the archive."""
        self._file.write(END)
        self._file.end()
        return [self._file]


def field_name(column: Column) -> str:
    """What follows the key in the file's name."""
    suffix = _SUFFIX_OF_TYPE.get(column.type)
    if suffix is None or column.name == suffix or column.name.endswith(f".{suffix}"):
        return column.name
    return f"{column.name}.{suffix}"


def faults_of(keys: list[str], columns: tuple[Column, ...]) -> dict[int, str]:
    """Which samples of these fields WebDataset's readers would lose or refuse, by their number, and why."""
    fault, longest = _fault_of_fields(columns)
    if fault:
        return dict.fromkeys(range(len(keys)), fault)
    if all(map(_PLAIN_KEY.fullmatch, keys)) and max(map(len, keys)) + longest < MAX_NAME_BYTES:
        return {}
    found = ((number, _fault_of_key(key, longest)) for number, key in enumerate(keys))
    return {number: fault for number, fault in found if fault}


def _fault_of_key(key: str, longest: int) -> str:
    if _PLAIN_KEY.fullmatch(key) and len(key) + longest < MAX_NAME_BYTES:
        return ""
    if "." in key.rpartition("/")[2] or not key.rpartition("/")[2]:
        return f"its key {key!r} holds a dot or ends with a slash: readers take the key to end there"
    if key.startswith(("/", "./")) or "\0" in key or "/../" in f"/{key}/" or _SKIPPED_BY_READERS.match(key):
        return f"its key {key!r} is one that readers skip or refuse"
    name = key.encode() + b"." + bytes(longest)
    if len(name) > MAX_NAME_BYTES:
        try:
            split_name(name)
        except ValueError as error:
            return str(error)
    return ""


@functools.lru_cache(maxsize=1024)
def _fault_of_fields(columns: tuple[Column, ...]) -> tuple[str, int]:
    """What is wrong with the names of the fields, and the bytes of the longest."""
    names = [field_name(column) for column in columns]
    if not names:
        return "it has no field", 0
    for name in names:
        if not name or "/" in name or "\0" in name or name.startswith("."):
            return f"its field {name!r} cannot be the end of a file name", 0
    if len({name.lower() for name in names}) < len(names):
        return "two of its fields differ in capitals only", 0
    return "", max(len(name.encode()) for name in names)


def split_member(name: str) -> tuple[str, str] | None:
    """Key and field of a member, or None for one that readers skip."""
    match = _KEY_AND_FIELD.fullmatch(name)
    if match is None or _SKIPPED_BY_READERS.match(name):
        return None
    return match[1], match[2].lower()


def _blocks(names: list[bytes], data: list[Any]) -> bytearray:
    sizes = np.fromiter(map(len, data), dtype=np.int64, count=len(data))
    num_blocks = 1 + (sizes + BLOCK - 1) // BLOCK
    firsts = np.cumsum(num_blocks) - num_blocks
    made = bytearray(int(num_blocks.sum()) * BLOCK)
    np.frombuffer(made, dtype=np.uint8).reshape(-1, BLOCK)[firsts] = headers(names, sizes)
    for start, value in zip(((firsts + 1) * BLOCK).tolist(), data, strict=True):
        made[start : start + len(value)] = value
    return made


def check(file: BinaryIO, name: str, content: ShardContent) -> Iterator[Fault]:
    """What is wrong with a tar opened at its start: every header read, every sample counted."""
    place, num_samples, last_key = 0, 0, None
    while True:
        block = file.read(BLOCK)
        if len(block) < BLOCK:
            yield Fault(
                name, "ends without the end of a tar", offset=place, expected="a header", actual=f"{len(block)} bytes"
            )
            return
        try:
            member = read_header(block)
        except BadHeader as error:
            yield Fault(name, f"holds no tar header where one must be: {error}", offset=place)
            return
        if member is None:
            break
        key = split_member(member.name)
        if key is None or member.kind != b"0":
            yield Fault(name, f"holds {member.name!r}, which is no field of a sample", offset=place)
        elif key[0] != last_key:
            num_samples, last_key = num_samples + 1, key[0]
        place += BLOCK
        if (found := _skip(file, padded(member.size))) < padded(member.size):
            yield Fault(
                name, f"ends inside {member.name}", offset=place + found, expected=f"{member.size} bytes of it",
                actual=str(min(found, member.size)),
            )  # fmt: skip
            return
        place += padded(member.size)
    if num_samples != content.num_samples:
        yield Fault(
            name, "holds another number of samples", offset=place, expected=str(content.num_samples),
            actual=str(num_samples),
        )  # fmt: skip
    rest = file.read(len(END))
    if rest != END[BLOCK:]:
        yield Fault(name, "does not end where its last sample does", offset=place + BLOCK, expected="512 zero bytes",
                    actual=f"{len(rest)} bytes")  # fmt: skip


def _skip(file: BinaryIO, size: int) -> int:
    """Read past `size` bytes; returns how many there were. Not a seek: that would not notice the end."""
    left = size
    while left and (data := file.read(min(left, _READ_BYTES))):
        left -= len(data)
    return size - left
