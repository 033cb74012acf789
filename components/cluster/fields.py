"""Reads fields of the cluster's objects, which may lack anything and hold anything: a wrong shape reads as absent."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from components.cluster.quantities import parse_quantity

Object = Mapping[str, Any]

_NONE: dict[str, Any] = {}


def part(item: Object, *path: str) -> Object:
    """The mapping at that path; empty when there is none."""
    value: Any = item
    for name in path:
        if not isinstance(value, dict):
            return _NONE
        value = value.get(name)
    return value if isinstance(value, dict) else _NONE


def parts(item: Object, *path: str) -> list[Object]:
    """The mappings in the list at that path."""
    value = part(item, *path[:-1]).get(path[-1])
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list | tuple) else []


def text(item: Object, *path: str) -> str:
    """The text at that path; empty when there is none."""
    value = part(item, *path[:-1]).get(path[-1])
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else ""


def number(item: Object, *path: str) -> int | None:
    """The whole number at that path."""
    value = part(item, *path[:-1]).get(path[-1])
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def moment(value: Any) -> datetime | None:
    """A time of the API, `2026-11-29T18:50:52Z`, as a moment."""
    if not isinstance(value, str) or not value:
        return None
    try:
        at = datetime.fromisoformat(value)
    except ValueError:
        return None
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def name_of(item: Object) -> str:
    return text(item, "metadata", "name")


def uid_of(item: Object) -> str:
    return text(item, "metadata", "uid")


def condition(item: Object, kind: str) -> Object:
    """The status condition of that type; empty when there is none."""
    return next((entry for entry in parts(item, "status", "conditions") if entry.get("type") == kind), _NONE)


def is_true(item: Object, kind: str) -> bool:
    return condition(item, kind).get("status") == "True"


def asked_to_go_at(item: Object) -> datetime | None:
    """When its deletion was asked for: deletionTimestamp lies the grace period behind that."""
    at = moment(text(item, "metadata", "deletionTimestamp"))
    if at is None:
        return None
    grace = number(item, "metadata", "deletionGracePeriodSeconds") or 0
    return datetime.fromtimestamp(at.timestamp() - grace, UTC)


def event_at(event: Object) -> datetime | None:
    """When it was last seen; series and old events tell it elsewhere."""
    found = (
        moment(part(event, "series").get("lastObservedTime")), moment(event.get("lastTimestamp")),
        moment(event.get("eventTime")), moment(event.get("firstTimestamp")),
    )  # fmt: skip
    known = [at for at in found if at is not None]
    return max(known, default=None)


def event_began(event: Object) -> datetime | None:
    """When it was first seen."""
    known = [at for name in ("firstTimestamp", "eventTime") if (at := moment(event.get(name))) is not None]
    return min(known, default=None) or event_at(event)


def quantity(value: Any) -> float:
    """`500m`, `2Gi`, `8`: an amount of a resource; 0 when it cannot be read."""
    try:
        return float(parse_quantity(str(value).strip()))
    except (ValueError, ArithmeticError):
        return 0.0
