"""JSON as a data set may hold it: no NaN, and no key twice, of which readers would silently take the last."""

import json
from typing import Any


class KeyTwice(ValueError):
    """An object has one key twice."""


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in made if names.count(name) > 1)
        raise KeyTwice(f"it has the key {twice!r} twice")
    return made


_DECODER: Any = json.JSONDecoder(parse_constant=_refuse, object_pairs_hook=_object)
"""Made once: `json.loads` with arguments makes a decoder a call, and looks for other encodings."""
loads = _DECODER.decode
"""The value of one JSON text. Raises ValueError, KeyTwice, RecursionError."""
scan = _DECODER.scan_once
"""The value that begins at a place of a text, and where it ends. Raises what `loads` does, and StopIteration."""
