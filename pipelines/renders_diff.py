"""Where two objects differ, for people: by field, down into the Specs that stand as JSON among a stage's arguments."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_MAX_SHOWN = 160
_ABSENT = object()


@dataclass(frozen=True)
class Difference:
    """One field that is not the same on both sides."""

    path: str
    was: str
    """As JSON, shortened; `absent` where there is none."""
    now: str

    def __str__(self) -> str:
        return f"{self.path}: {self.was} → {self.now}"


def differences(was: Any, now: Any, path: str = "") -> Iterator[Difference]:
    """Every field of `was` or `now` in which they differ. Lists of named things are compared by name."""
    if not isinstance(was, (Mapping, list)) and was == now and type(was) is type(now):
        return  # of containers every leaf is looked at: true equals 1 to Python
    if isinstance(was, str) and isinstance(now, str):
        pair = _as_json(was), _as_json(now)
        if pair[0] is not None and pair[1] is not None and pair[0] != pair[1]:
            yield from differences(pair[0], pair[1], path)
            return
    if isinstance(was, Mapping) and isinstance(now, Mapping):
        for key in dict.fromkeys((*was, *now)):
            yield from differences(was.get(key, _ABSENT), now.get(key, _ABSENT), f"{path}.{key}" if path else str(key))
    elif isinstance(was, list) and isinstance(now, list):
        yield from _of_lists(was, now, path)
    else:
        yield Difference(path or "the whole", *_shown_apart(was, now))


def _of_lists(was: list[Any], now: list[Any], path: str) -> Iterator[Difference]:
    names = _names(was), _names(now)
    if names[0] is not None and names[1] is not None:
        for name in dict.fromkeys((*names[0], *names[1])):
            yield from differences(names[0].get(name, _ABSENT), names[1].get(name, _ABSENT), f"{path}[{name}]")
        if set(names[0]) == set(names[1]) and list(names[0]) != list(names[1]):
            yield Difference(path or "the whole", "order " + ", ".join(names[0]), "order " + ", ".join(names[1]))
        return
    options = _options(was), _options(now)
    if options[0] is not None and options[1] is not None:
        yield from differences(options[0], options[1], path)
        return
    for index in range(max(len(was), len(now))):
        pair = [side[index] if index < len(side) else _ABSENT for side in (was, now)]
        yield from differences(pair[0], pair[1], f"{path}[{index}]")


def _names(items: Sequence[Any]) -> dict[str, Any] | None:
    """By `name`, when all have one of their own."""
    if not items or not all(isinstance(item, dict) and isinstance(item.get("name"), str) for item in items):
        return None
    named = {str(item["name"]): item for item in items}
    return named if len(named) == len(items) else None


def _options(items: Sequence[Any]) -> dict[str, Any] | None:
    """A command line as option -> value, when it reads as one in which each option stands once but `--input`."""
    if "--spec" not in items or not all(isinstance(item, str) for item in items):
        return None
    found: dict[str, Any] = {}
    rest = list(items)
    while rest:
        word = rest.pop(0)
        if not word.startswith("--"):
            key, value = "part", word
        elif not rest:
            return None
        elif word == "--input":
            key, _, value = rest.pop(0).partition("=")
            key = f"--input {key}"
        else:
            key, value = word, rest.pop(0)
        if key in found:
            return None
        found[key] = value
    return found


def _as_json(text: str) -> Any:
    """The object or list that `text` is as JSON; None for any other text."""
    if text[:1] not in ("{", "["):
        return None
    try:
        return json.loads(text)
    except ValueError:
        return None


def _shown_apart(was: Any, now: Any) -> tuple[str, str]:
    """Both, and of long texts the part in which they differ."""
    if not (isinstance(was, str) and isinstance(now, str)) or max(len(was), len(now)) <= _MAX_SHOWN:
        return _shown(was), _shown(now)
    same = next((at for at, pair in enumerate(zip(was, now, strict=False)) if pair[0] != pair[1]), 0)
    begin = max(0, same - _MAX_SHOWN // 4)
    mark = "…" if begin else ""
    return mark + _shown(was[begin:]), mark + _shown(now[begin:])


def _shown(value: Any) -> str:
    if value is _ABSENT:
        return "absent"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}… ({len(text)} characters)"
