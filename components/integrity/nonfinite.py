"""Finds NaN and Inf in raw tensor bytes, exactly, at a multiple of the speed of hashing.

In every float format here NaN and Inf are the largest magnitudes, so their bit patterns are the largest integers of
either sign: two maxima, one of the signed and one of the unsigned view, decide. Nothing is converted, nothing warns.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class _Format:
    size_bytes: int
    infinity: int | None
    """Bit pattern of +Inf; None where the format has none."""
    smallest_nan: int
    """From this pattern on (sign bit clear) everything is NaN."""
    has_sign: bool = True


_FORMATS = {
    "F64": _Format(8, 0x7FF0000000000000, 0x7FF0000000000001),
    "F32": _Format(4, 0x7F800000, 0x7F800001),
    "C64": _Format(4, 0x7F800000, 0x7F800001),  # two F32 each
    "C128": _Format(8, 0x7FF0000000000000, 0x7FF0000000000001),  # two F64 each
    "C32": _Format(2, 0x7C00, 0x7C01),  # two F16 each
    "BF16": _Format(2, 0x7F80, 0x7F81),
    "F16": _Format(2, 0x7C00, 0x7C01),
    "F8_E5M2": _Format(1, 0x7C, 0x7D),
    "F8_E4M3": _Format(1, None, 0x7F),
    "F8_E8M0": _Format(1, None, 0xFF, has_sign=False),
    "F8_E5M2FNUZ": _Format(1, None, 0x80, has_sign=False),  # minus zero is the one NaN
    "F8_E4M3FNUZ": _Format(1, None, 0x80, has_sign=False),
}


@dataclass(frozen=True)
class NonFinite:
    """The first value that is not a number."""

    offset: int
    """Bytes from the start of what was scanned."""
    value: str
    """`NaN`, `Inf` or `-Inf`."""


def scanned_size(dtype: str) -> int | None:
    """Bytes of one scanned value of a dtype; None when the dtype cannot hold NaN or Inf."""
    found = _FORMATS.get(dtype)
    return found.size_bytes if found is not None else None


def first_nonfinite(data: memoryview, dtype: str) -> NonFinite | None:
    """The first NaN or Inf in `data`, whole values of `dtype`, or None."""
    kind = _FORMATS[dtype]
    bits = np.frombuffer(data, dtype=f"<u{kind.size_bytes}")
    if not bits.size:
        return None
    lowest = kind.smallest_nan if kind.infinity is None else kind.infinity
    sign = 1 << (8 * kind.size_bytes - 1)
    if dtype.endswith("FNUZ"):
        bad = bits == kind.smallest_nan if int(bits.view(np.int8).min()) == -128 else None
    elif not kind.has_sign:
        bad = bits >= lowest if int(bits.max()) >= lowest else None
    elif int(bits.view(f"<i{kind.size_bytes}").max()) >= lowest or int(bits.max()) >= (lowest | sign):
        bad = (bits & ~np.array(sign, dtype=bits.dtype)) >= lowest
    else:
        bad = None
    if bad is None:
        return None
    index = int(bad.argmax())
    pattern = int(bits[index])
    magnitude = pattern & ~sign if kind.has_sign else pattern
    value = ("-Inf" if pattern & sign else "Inf") if magnitude == kind.infinity else "NaN"
    return NonFinite(index * kind.size_bytes, value)
