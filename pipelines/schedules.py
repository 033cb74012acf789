"""Schedules as cron writes them, and zones of time: what Argo's controller would take, and would ever fire.

A CronWorkflow with a schedule that Argo cannot read is accepted by the API server, and never starts a run.
"""

import re
from collections.abc import Mapping

WORDS = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
FORM = "write minute, hour, day of month, month and day of week, as in '30 3 * * 1-5', or @daily"

_MONTHS = {
    "jan": 1, "feb": 2, "mar": 3, "apr": 4, "may": 5, "jun": 6, "jul": 7, "aug": 8, "sep": 9, "oct": 10, "nov": 11,
    "dec": 12,
}  # fmt: skip
_DAYS = {"sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6}
_FIELDS: tuple[tuple[str, int, int, Mapping[str, int]], ...] = (
    ("minute", 0, 59, {}), ("hour", 0, 23, {}), ("day of month", 1, 31, {}), ("month", 1, 12, _MONTHS),
    ("day of week", 0, 6, _DAYS),
)  # fmt: skip
_PART = re.compile(r"(\*|[0-9a-z]+(?:-[0-9a-z]+)?)(?:/([0-9]+))?", re.ASCII)
_LONGEST = {2: 29, 4: 30, 6: 30, 9: 30, 11: 30}
_NO_ZONES = ("posix/", "right/", "localtime", "Factory")
"""Files beside the zones that only some machines have."""


def schedule(text: str) -> str:
    """`text`. Raises ValueError with what is wrong with it."""
    if text in WORDS:
        return text
    words = text.split(" ")
    if len(words) != len(_FIELDS):
        raise ValueError(f"is {text!r}; {FORM}")
    values = []
    for word, (name, least, most, names) in zip(words, _FIELDS, strict=True):
        found = _values(word.lower(), least, most, names)
        if found is None:
            words_too = f" or {' '.join(names)}" if names else ""
            raise ValueError(f"is {text!r}, of which {name} {word!r} is not {least} to {most}{words_too}; {FORM}")
        values.append(found)
    days, months = values[2], values[3]
    if words[4] == "*" and all(min(days) > _LONGEST.get(month, 31) for month in months):
        raise ValueError(f"is {text!r}, a day that never comes; {FORM}")
    return text


def zone(name: str) -> str:
    """`name`. Raises ValueError when the tz database of this machine, if it has one, does not know it."""
    if name.startswith(_NO_ZONES) or (_has_zones() and not _is_zone(name)):
        raise ValueError(f"is {name!r}, which the tz database does not know; write for example Europe/Berlin")
    return name


def _values(word: str, least: int, most: int, names: Mapping[str, int]) -> set[int] | None:
    found: set[int] = set()
    for part in word.split(","):
        match = _PART.fullmatch(part)
        step = int(match[2] or 1) if match else 0
        if match is None or step == 0:
            return None
        if match[1] == "*":
            begin, end = least, most
        else:
            ends = [names.get(item, int(item) if item.isdecimal() else -1) for item in match[1].split("-")]
            # A single value with a step goes on to the end.
            begin, end = ends[0], ends[1] if len(ends) == 2 else most if match[2] else ends[0]
        if not least <= begin <= end <= most:
            return None
        found |= set(range(begin, end + 1, step))
    return found


def _has_zones() -> bool:
    return _is_zone("Etc/UTC")


def _is_zone(name: str) -> bool:
    import zoneinfo  # a tenth of what reading a description takes, and few name a zone

    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True
