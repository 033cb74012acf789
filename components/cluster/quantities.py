"""Quantities as Kubernetes writes them, `500m`, `64Gi`, `2e3`: read, added up, written again."""

import re
from decimal import Decimal

_UNITS = {
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "": Decimal(1), "k": Decimal(10**3),
    "M": Decimal(10**6), "G": Decimal(10**9), "T": Decimal(10**12), "P": Decimal(10**15), "E": Decimal(10**18),
    "Ki": Decimal(2**10), "Mi": Decimal(2**20), "Gi": Decimal(2**30), "Ti": Decimal(2**40), "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
}  # fmt: skip
_QUANTITY = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+))(?:([eE][+-]?\d+)|([numkMGTPE]|[KMGTPE]i)?)")


def parse_quantity(text: str) -> Decimal:
    """Its value in whole units: cores, bytes, devices. Raises ValueError when `text` is no quantity."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f'{text!r} is no quantity; write for example "4", "500m" or "64Gi"')
    return Decimal(match[1] + (match[2] or "")) * _UNITS[match[3] or ""]


def write_quantity(value: Decimal) -> str:
    """The shortest usual spelling of the same value: whole bytes with Ki to Ti, fractions in thousandths."""
    if value != value.to_integral_value():
        return f"{(value * 1000).to_integral_value(rounding='ROUND_CEILING')}m"
    whole = int(value)
    for unit in ("Ti", "Gi", "Mi", "Ki"):
        size = int(_UNITS[unit])
        if whole and whole % size == 0:
            return f"{whole // size}{unit}"
    return str(whole)
