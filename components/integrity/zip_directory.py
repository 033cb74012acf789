"""Reads the directory of an uncompressed zip archive that may lie anywhere inside a file. Trusts no number in it.

    local header | data | descriptor?   ...   directory | zip64 record? | end record

Archives here are those of torch: stored, not compressed, entries side by side, the directory at the end.
"""

import struct
from dataclasses import dataclass

from components.integrity.window import Window

LOCAL_SIGNATURE = b"PK\x03\x04"
END_SIGNATURE = b"PK\x05\x06"
_ENTRY, _LOCAL, _END = struct.Struct("<4s6H3I5H2I"), struct.Struct("<4s5H3I2H"), struct.Struct("<4s4H2IH")
_END64, _LOCATOR64 = struct.Struct("<4sQ2H2I4Q"), struct.Struct("<4sIQI")
_MAX_DIRECTORY_BYTES = 16 << 20
_MAX_ENTRIES = 100_000
_ENCRYPTED, _HAS_DESCRIPTOR = 0x1, 0x8
_MOST32, _MOST16 = 0xFFFFFFFF, 0xFFFF


class BadZip(ValueError):
    """The archive cannot be what it claims. `offset` counts from the start of the file."""

    def __init__(self, problem: str, offset: int, *, expected: str = "", actual: str = "") -> None:
        super().__init__(problem)
        self.problem, self.offset, self.expected, self.actual = problem, offset, expected, actual


class ZipTooLarge(Exception):
    """More entries than a verifier may hold."""


@dataclass(slots=True)
class Entry:
    """One stored file; offsets count from the start of the surrounding file."""

    name: str
    header: int
    crc32: int
    size_bytes: int
    flags: int
    begin: int = 0
    """Where its data begin; `begin + size_bytes` is where they end."""


def read_directory(window: Window, begin: int, end: int) -> list[Entry]:
    """The entries of the archive at [begin, end), in the order of their bytes, none overlapping another.

    Raises BadZip and ZipTooLarge.
    """
    directory, size, count = _directory_place(window, begin, end)
    if size > _MAX_DIRECTORY_BYTES or count > _MAX_ENTRIES:
        raise ZipTooLarge
    if count * _ENTRY.size > size:
        raise BadZip("has a directory too small for its entries", directory, actual=f"{size} bytes, {count} entries")
    entries = _entries(window.read(directory, size), directory, count, begin)
    entries.sort(key=lambda entry: entry.header)
    if len({entry.name for entry in entries}) != len(entries):
        raise BadZip("names an entry twice", directory)
    limits = [entry.header for entry in entries[1:]] + [directory]
    position = begin
    for entry, limit in zip(entries, limits, strict=True):
        if entry.header < position:
            raise BadZip(f"has entries that overlap, {entry.name} among them", entry.header)
        if entry is entries[0] and entry.header != begin:
            raise BadZip("has bytes before its first entry", begin, actual=f"{entry.header - begin} bytes")
        position = _place(window, entry, limit)
    return entries


def _directory_place(window: Window, begin: int, end: int) -> tuple[int, int, int]:
    """(offset, size, number of entries) of the directory."""
    at = end - _END.size
    record = window.read(at, _END.size) if at >= begin else b""
    if record[:4] != END_SIGNATURE or len(record) < _END.size:
        raise BadZip("is cut: it does not end with the end of a zip directory", max(end - 1, begin))
    _, disk, first_disk, here, count, size, offset, comment = _END.unpack(record)
    if comment or disk or first_disk or here != count:
        raise BadZip("has an end record that torch does not write", at)
    tail = at
    if offset == _MOST32 or size == _MOST32 or count == _MOST16 or window.read(at - 20, 4) == b"PK\x06\x07":
        tail, size, offset, count = _zip64_place(window, begin, at)
    if offset + size != tail - begin:
        raise BadZip("has a directory that is not where its end says", tail, expected=f"{tail - begin} bytes",
                     actual=f"{offset + size} bytes")  # fmt: skip
    return begin + offset, size, count


def _zip64_place(window: Window, begin: int, at: int) -> tuple[int, int, int, int]:
    where = at - _LOCATOR64.size
    locator = window.read(where, _LOCATOR64.size) if where >= begin else b""
    if locator[:4] != b"PK\x06\x07":
        raise BadZip("lacks its zip64 locator", max(where, begin))
    record_at = begin + _LOCATOR64.unpack(locator)[2]
    if record_at != where - _END64.size:
        raise BadZip("has a zip64 record that is not where its locator says", where)
    record = window.read(record_at, _END64.size)
    if record[:4] != b"PK\x06\x06":
        raise BadZip("lacks its zip64 record", record_at)
    _, _, _, _, _, _, here, count, size, offset = _END64.unpack(record)
    if here != count:
        raise BadZip("has a zip64 record that torch does not write", record_at)
    return record_at, size, offset, count


def _entries(data: bytes, directory: int, count: int, begin: int) -> list[Entry]:
    entries = []
    at = 0
    for _ in range(count):
        if data[at : at + 4] != b"PK\x01\x02" or at + _ENTRY.size > len(data):
            raise BadZip("has a damaged directory", directory + at)
        fields = _ENTRY.unpack_from(data, at)
        flags, method, crc32, stored, size = fields[3], fields[4], fields[7], fields[8], fields[9]
        name_size, extra_size, comment_size, header = fields[10], fields[11], fields[12], fields[16]
        name_at = at + _ENTRY.size
        extra = data[name_at + name_size : name_at + name_size + extra_size]
        raw = data[name_at : name_at + name_size]
        size, stored, header = _wide(extra, size, stored, header, directory + at)
        name = raw.decode("utf-8", "replace")
        if (
            len(raw) < name_size
            or not name.isprintable()
            or not name
            or name.startswith("/")
            or ".." in name.split("/")
        ):
            raise BadZip("has an entry with an unusable name", directory + at)
        if flags & _ENCRYPTED or method or stored != size:
            raise BadZip(f"has an entry that is compressed or encrypted, {name}: torch stores them as they are",
                         directory + at)  # fmt: skip
        entries.append(Entry(name, begin + header, crc32, size, flags))
        at = name_at + name_size + extra_size + comment_size
    if at != len(data):
        raise BadZip("has a directory with bytes that no entry owns", directory + min(at, len(data)))
    return entries


def _wide(extra: bytes, size: int, stored: int, header: int, offset: int) -> tuple[int, int, int]:
    """Sizes beyond 4 GiB stand in an extra field, only those that do not fit, in this order."""
    if _MOST32 not in (size, stored, header):
        return size, stored, header
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, at)
        if kind == 1:
            values = list(struct.unpack_from(f"<{length // 8}Q", extra[: at + 4 + length], at + 4)) if length else []
            if length % 8 or len(values) < [size, stored, header].count(_MOST32):
                break
            size, stored, header = (values.pop(0) if value == _MOST32 else value for value in (size, stored, header))
            return size, stored, header
        at += 4 + length
    raise BadZip("has an entry whose zip64 sizes are missing", offset)


def _place(window: Window, entry: Entry, limit: int) -> int:
    """Read the entry's local header, set where its data begin, return where it ends; all of it before `limit`."""
    raw = window.read(entry.header, _LOCAL.size)
    if len(raw) < _LOCAL.size or raw[:4] != LOCAL_SIGNATURE:
        raise BadZip(f"has a damaged header of {entry.name}", entry.header)
    _, _, flags, method, _, _, crc32, stored, size, name_size, extra_size = _LOCAL.unpack(raw)
    name = window.read(entry.header + _LOCAL.size, name_size).decode("utf-8", "replace")
    if name != entry.name or method or flags != entry.flags:
        raise BadZip(f"has a header of {entry.name} that differs from the directory", entry.header)
    has_descriptor = bool(flags & _HAS_DESCRIPTOR)
    if not has_descriptor and crc32 != entry.crc32:
        raise BadZip(f"has a header of {entry.name} that differs from the directory", entry.header)
    if not has_descriptor and _MOST32 not in (size, stored) and (size, stored) != (entry.size_bytes, entry.size_bytes):
        raise BadZip(f"has a header of {entry.name} that differs from the directory", entry.header)
    entry.begin = entry.header + _LOCAL.size + name_size + extra_size
    end = entry.begin + entry.size_bytes
    if end > limit:
        raise BadZip(f"has an entry that reaches into the next, {entry.name}", entry.header,
                     expected=f"end at or before {limit}", actual=str(end))  # fmt: skip
    if has_descriptor:
        end += _descriptor(window, entry, end, limit)
    if end != limit:
        raise BadZip("has bytes that no entry owns", end, actual=f"{limit - end} bytes")
    return end


def _descriptor(window: Window, entry: Entry, at: int, limit: int) -> int:
    """Size of the record behind the data that repeats CRC and sizes."""
    wide = limit - at == 24
    raw = window.read(at, 24 if wide else 16)
    layout = struct.Struct("<4sI2Q" if wide else "<4s3I")
    if len(raw) < layout.size or at + layout.size > limit:
        raise BadZip(f"lacks the record behind {entry.name}", at)
    signature, crc32, stored, size = layout.unpack(raw)
    if signature != b"PK\x07\x08" or (crc32, stored, size) != (entry.crc32, entry.size_bytes, entry.size_bytes):
        raise BadZip(f"has a record behind {entry.name} that differs from the directory", at)
    return layout.size
