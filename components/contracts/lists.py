"""Lists in sentences."""

from collections.abc import Sequence


def some_of(names: Sequence[object], *, most: int) -> str:
    """`a, b and 3 more`: the first `most` of them, and how many are left out."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(str, names[:most])) + more
