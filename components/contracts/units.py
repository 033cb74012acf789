"""Durations and sizes as people write them, and back."""

import re
from typing import Annotated

from pydantic import BeforeValidator, Field

_DURATION_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SIZE_UNITS = {
    "B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40,
}  # fmt: skip
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kKMGT]i?B|B)")


def parse_duration(text: str) -> float:
    """Seconds in `90s`, `1h30m`, `2d`. Raises ValueError that shows the accepted form."""
    compact = text.replace(" ", "")
    parts = _DURATION.findall(compact)
    if not parts or "".join(number + unit for number, unit in parts) != compact:
        raise ValueError(
            f"not a duration: {text!r}; write a number and a unit (ms, s, m, h, d), for example 90s or 1h30m"
        )
    return sum(float(number) * _DURATION_UNITS[unit] for number, unit in parts)


def parse_size(text: str) -> int:
    """Bytes in `512MiB`, `2GB`, `100kB`. Raises ValueError that shows the accepted form."""
    match = _SIZE.fullmatch(text.strip())
    if not match:
        raise ValueError(
            f"not a size: {text!r}; write a number and a unit (B, kB, MB, GB, KiB, MiB, GiB), for example 512MiB"
        )
    return int(float(match[1]) * _SIZE_UNITS[match[2]])


def format_duration(seconds: float) -> str:
    """`90` -> `1m30s`, `7200` -> `2h`, `0.25` -> `250ms`: reads back with `parse_duration` (to the millisecond)."""
    if seconds < 1:
        return f"{round(seconds * 1000)}ms" if seconds else "0s"
    rest, parts = round(seconds, 3), []
    for unit in ("d", "h", "m"):
        count, rest = divmod(rest, _DURATION_UNITS[unit])
        if count:
            parts.append(f"{int(count)}{unit}")
    rest = round(rest, 3)
    if rest:
        parts.append(f"{int(rest)}s" if rest == int(rest) else f"{rest}s")
    return "".join(parts)


def format_size(num_bytes: float) -> str:
    """`536870912` -> `512.0 MiB`: for people, rounded to one decimal."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(num_bytes) < 1024:
            return f"{num_bytes:.0f} {unit}" if unit == "B" else f"{num_bytes:.1f} {unit}"
        num_bytes /= 1024
    return f"{num_bytes:.1f} TiB"


def write_size(num_bytes: int) -> str:
    """`629145600` -> `600MiB`: exact, in the largest unit that divides it; reads back with `parse_size`."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if num_bytes and num_bytes % _SIZE_UNITS[unit] == 0:
            return f"{num_bytes // _SIZE_UNITS[unit]}{unit}"
    return f"{num_bytes}B"


def _duration(value: object) -> float:
    if isinstance(value, str):
        return parse_duration(value)
    if isinstance(value, float) or (isinstance(value, int) and not isinstance(value, bool) and value == 0):
        return float(value)  # a float only comes from our own JSON; people must name the unit
    raise ValueError(f"not a duration: {value!r}; write a number and a unit, for example 90s")


def _size(value: object) -> int:
    if isinstance(value, str):
        return parse_size(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise ValueError(f"not a size: {value!r}; write a number and a unit, for example 512MiB")


Duration = Annotated[float, BeforeValidator(_duration, json_schema_input_type=str), Field(ge=0)]
"""Seconds; written `2h`, `1h30m`, `90s`."""

Size = Annotated[int, BeforeValidator(_size, json_schema_input_type=str), Field(ge=0)]
"""Bytes; written `512MiB`, `2GB`."""
