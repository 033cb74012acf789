"""Tar headers: made a thousand at a time with numpy, and read one at a time without trusting them.

Written: ustar, mode 0444, owner 0, modification time 0, so equal samples give equal bytes and every tar reads them.
Read: ustar, old tar, GNU long names and pax headers; each header's checksum is checked.
"""

import re
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

BLOCK = 512
END = bytes(2 * BLOCK)
MAX_NAME_BYTES = 100
MAX_PREFIX_BYTES = 155

_TEMPLATE = np.frombuffer(
    bytes(100) + b"0000444\0" + b"0000000\0" * 2 + b"0" * 11 + b"\0" + b"0" * 11 + b"\0" + b" " * 8 + b"0"
    + bytes(100) + b"ustar\00000" + bytes(64 + 16 + 167), dtype=np.uint8,
)  # fmt: skip
_SIZE, _CHECKSUM, _PREFIX = slice(124, 135), slice(148, 155), slice(345, 345 + MAX_PREFIX_BYTES)
_NAME = np.dtype(f"S{MAX_NAME_BYTES}")
_EVERY_OTHER = np.uint64(0x00FF00FF00FF00FF)
_SIZE_SHIFTS = np.arange(30, -1, -3)
_CHECKSUM_SHIFTS = np.arange(15, -1, -3)
MAX_FILE_BYTES = (1 << 33) - 1
"""Eleven octal digits."""


def headers(names: Sequence[bytes], sizes: Any) -> Any:
    """One header a row, shape (n, 512). Raises ValueError for a name that does not fit."""
    short, prefixes = list(names), dict[int, bytes]()
    for row, name in enumerate(names):
        if len(name) > MAX_NAME_BYTES:
            prefixes[row], short[row] = split_name(name)
    made = np.empty((len(names), BLOCK), dtype=np.uint8)
    made[:] = _TEMPLATE
    made[:, :MAX_NAME_BYTES] = np.array(short, dtype=_NAME).view(np.uint8).reshape(-1, MAX_NAME_BYTES)
    made[:, _SIZE] = ((sizes[:, None] >> _SIZE_SHIFTS) & 7) + ord("0")
    for row, prefix in prefixes.items():
        made[row, _PREFIX] = np.frombuffer(prefix.ljust(MAX_PREFIX_BYTES, b"\0"), dtype=np.uint8)
    sums = byte_sums(made)
    made[:, 148:154] = ((sums[:, None] >> _CHECKSUM_SHIFTS) & 7) + ord("0")
    made[:, 154] = 0
    return made


def byte_sums(blocks: Any) -> Any:
    """The sum of the 512 bytes of each row, eight bytes an addition: numpy adds single bytes one by one."""
    words = blocks.view(np.uint64)
    pairs = ((words & _EVERY_OTHER) + ((words >> np.uint64(8)) & _EVERY_OTHER)).sum(axis=1)
    return sum((pairs >> np.uint64(shift)) & np.uint64(0xFFFF) for shift in (0, 16, 32, 48)).astype(np.int64)


def split_name(name: bytes) -> tuple[bytes, bytes]:
    """Prefix and name of a path over 100 bytes. Raises ValueError when no slash of it lies right."""
    cut = name.rfind(b"/", 0, MAX_PREFIX_BYTES + 1)
    if cut <= 0 or not 0 < len(name) - cut - 1 <= MAX_NAME_BYTES:
        raise ValueError(
            f"its name of {len(name)} bytes does not fit a tar header: at most 100, or 155 and 100 around a /"
        )
    return name[:cut], name[cut + 1 :]


class BadHeader(ValueError):
    """Not a tar header."""


class Member(NamedTuple):
    """What a header says."""

    name: str
    size: int
    kind: bytes
    """b"0" a file; b"x", b"g" pax records; b"L" a long name; others carry no sample."""


def read_header(block: bytes) -> Member | None:
    """The member of 512 bytes; None for a block of zeros. Raises BadHeader."""
    if block.count(0) == BLOCK:
        return None
    # adler32's lower half is the sum of all bytes, modulo 65521: a fifth of what summing in Python takes.
    total = (zlib.adler32(block) & 0xFFFF) - 1 - sum(block[148:156]) + 8 * ord(" ")
    try:
        said = int(block[148:156].split(b"\0")[0], 8)
        size = _number(block[124:136])
    except ValueError as error:
        raise BadHeader("its numbers are not octal") from error
    if (total - said) % 65521:
        raise BadHeader(f"its checksum is {said}, not {sum(block) - sum(block[148:156]) + 8 * ord(' ')}")
    name = block[:100].split(b"\0", 1)[0]
    if block[257:262] == b"ustar" and block[345] and block[257:265] != b"ustar  \0":
        name = block[345:500].split(b"\0", 1)[0] + b"/" + name
    return Member(name.decode("utf-8", "surrogateescape"), size, block[156:157].replace(b"\0", b"0"))


def pax_path(data: bytes) -> tuple[str | None, int | None]:
    """The path and the size that pax records give the next member."""
    path = size = None
    for record in _pax_records(data):
        keyword, _, value = record.partition(b"=")
        if keyword == b"path":
            path = value.decode("utf-8", "surrogateescape")
        elif keyword == b"size":
            size = int(value)
    return path, size


def padded(size: int) -> int:
    """`size` rounded up to whole blocks."""
    return (size + BLOCK - 1) // BLOCK * BLOCK


_PAX_LENGTH = re.compile(rb"(\d{1,20}) ")


def _pax_records(data: bytes) -> Iterator[bytes]:
    place = 0
    while match := _PAX_LENGTH.match(data, place):
        end = place + int(match[1])
        if end > len(data) or end <= match.end():
            raise BadHeader("its pax records are cut")
        yield data[match.end() : end - 1]
        place = end
    if place < len(data):
        raise BadHeader("its pax records do not begin with their length")


def _number(field: bytes) -> int:
    if field[0] & 0x80:  # GNU: base 256
        return int.from_bytes(bytes([field[0] & 0x7F]) + field[1:], "big")
    return int(field.split(b"\0")[0] or b"0", 8)
