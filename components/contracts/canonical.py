"""JSON with one spelling: the same value always gives the same bytes."""

import hashlib
import json
import re
from typing import Any

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


def canonical_json(value: Any) -> str:
    r"""`value` as ASCII JSON with sorted keys, no spaces, and every brace inside a string escaped.

    Argo substitutes `{{...}}` wherever it stands, also in user text; `\u007b` is the same character to a JSON reader
    and nothing to Argo.
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    if "\\" not in text and not _has_brace("".join(text.split('"')[1::2])):
        return text  # what stands between quotes has none, as almost always
    return _STRING.sub(lambda literal: literal[0].replace("{", "\\u007b").replace("}", "\\u007d"), text)


def _has_brace(text: str) -> bool:
    return "{" in text or "}" in text


def canonical_bytes(value: Any) -> bytes:
    """`canonical_json` as bytes: what is hashed and what is written."""
    return canonical_json(value).encode("ascii")


def digest_of(value: Any) -> str:
    """Hex SHA-256 of the canonical bytes of `value`."""
    return hashlib.sha256(canonical_bytes(value)).hexdigest()
