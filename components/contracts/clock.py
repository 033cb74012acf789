"""UTC times as text, one spelling."""

from datetime import UTC, datetime


def utc_text(moment: datetime) -> str:
    """`2026-11-29T18:50:52.123Z`: sorts as text in the order of time."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_utc(text: str) -> datetime:
    """The moment written by `utc_text`."""
    return datetime.fromisoformat(text)


def now_text() -> str:
    """The present moment. Only for edges: decisions take `now` as an argument."""
    return utc_text(datetime.now(UTC))
