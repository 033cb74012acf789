"""`{{name}}` in a manifest, substituted the way Argo does it: textually, in the JSON of the whole template.

A value is escaped for JSON and put where the tag stands, so a value can never break out of its string. What it contains
is not substituted again in the same pass, but a later pass (item, inputs, retries) sees it, as in Argo.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

_TAG = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
CONTROL_CHARACTERS = re.compile(r"[\x00-\x07\x0b\x0e-\x1f\x7f]")
"""Go's strconv.Quote writes them as \\a, \\v, \\x1b, \\x7f, which is not JSON: Argo refuses a value that holds one."""


class SubstitutionError(ValueError):
    """A tag that must be known is not, or a value cannot stand in a manifest."""


def substitute(value: Any, scope: Mapping[str, str], *, strict: tuple[str, ...] = ()) -> Any:
    """`value` (plain JSON) with every tag that `scope` knows replaced.

    Other tags stay, except those whose first segment is in `strict`: they raise SubstitutionError.
    """
    text = json.dumps(value, ensure_ascii=False)
    if "{{" not in text:
        return value

    def replace(match: re.Match[str]) -> str:
        tag = match[1].strip()
        if tag in scope:
            return _escaped(tag, scope[tag])
        if tag.split(".")[0] in strict:
            raise SubstitutionError(f"failed to resolve {{{{{tag}}}}}")
        return match[0]

    return json.loads(_TAG.sub(replace, text))


def tags(value: Any, path: str = "") -> Iterator[tuple[str, str | None]]:
    """Every tag in `value` with the path of its string, for example `args[3]`; None for one that is not closed."""
    if isinstance(value, str):
        for match in _TAG.finditer(value):
            yield path, match[1].strip()
        if "{{" in _TAG.sub("", value):
            yield path, None
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from tags(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, (list, tuple)):
        for index, inner in enumerate(value):
            yield from tags(inner, f"{path}[{index}]")


def _escaped(tag: str, value: str) -> str:
    if CONTROL_CHARACTERS.search(value):
        raise SubstitutionError(f"the value of {{{{{tag}}}}} holds control characters: {value[:60]!r}")
    return json.dumps(value, ensure_ascii=False)[1:-1]
