"""Values as a reader expects them, every one harmless in HTML."""

import html
import re
from typing import Literal

from components.contracts.clock import parse_utc
from components.contracts.units import format_duration
from components.report.text import plain

Tone = Literal["ok", "warn", "bad", "calm"]
NOTHING = '<span class="none">–</span>'


def text(value: object) -> str:
    """Any text, also a worker's: no control characters, nothing that HTML would read as its own."""
    return html.escape(plain(str(value)))


def prose(value: str) -> str:
    """A sentence of ours: `code` between backticks."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", text(value))


def moment(value: str | None) -> str:
    """`2026-11-29 18:50:52 UTC`."""
    return parse_utc(value).strftime("%Y-%m-%d %H:%M:%S UTC") if value else NOTHING


def duration(seconds: float | None) -> str:
    """`38s`, `1m12s`; tenths below ten seconds, milliseconds below one."""
    if seconds is None:
        return NOTHING
    seconds = max(seconds, 0.0)
    return format_duration(round(seconds, 3) if seconds < 1 else round(seconds, 1) if seconds < 10 else round(seconds))


def number(value: float | None, digits: int = 4) -> str:
    """`1,204` for whole numbers from a thousand up, else that many significant digits."""
    if value is None:
        return NOTHING
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


def compact(value: float) -> str:
    """`31.5 M`, `12.3 k`: for a figure that is read, not copied."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g}"


def badge(label: object, tone: Tone) -> str:
    """A short word on a tint."""
    return f'<span class="badge {tone}">{text(label)}</span>'


def table(head: list[tuple[str, str]], rows: list[str]) -> str:
    """`head`: label and class of each column; `rows`: finished `<tr>` elements."""
    cells = "".join(
        f'<th class="{kind}">{text(label)}</th>' if kind else f"<th>{text(label)}</th>" for label, kind in head
    )
    return f'<div class="wide"><table><thead><tr>{cells}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'
