"""UTC times as text, one spelling."""

from datetime import UTC, datetime
from typing import Annotated, TypeGuard

from pydantic import AfterValidator


def utc_text(moment: datetime) -> str:
    """`2026-11-29T18:50:52.123Z`: sorts as text in the order of time."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_utc(text: str) -> datetime:
    """The moment written by `utc_text`."""
    return datetime.fromisoformat(text)


def now_text() -> str:
    """The present moment. Only for edges: decisions take `now` as an argument."""
    return utc_text(datetime.now(UTC))


def is_utc(value: object) -> TypeGuard[str]:
    """Whether `value` is a moment as text, its zone included."""
    try:
        return isinstance(value, str) and parse_utc(value).tzinfo is not None
    except ValueError:
        return False


def _moment(text: str) -> str:
    if not is_utc(text):
        raise ValueError(f"{text!r} is no time with its zone")
    return text


UtcText = Annotated[str, AfterValidator(_moment)]
"""A field that holds what `utc_text` writes. A document with anything else there cannot be read, so whoever has read
one may count on its times."""
