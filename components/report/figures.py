"""Line figures as inline SVG: a few kilobytes, styled by the page, no library to import.

Written by hand because a plotting library costs half a second of CPU at the end of every run, ships its own fonts and
colours, and cannot follow the reader's light or dark mode.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 500, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 14, 14, 34

Point = tuple[float, float]


@dataclass(frozen=True)
class Line:
    """One polyline; `style` names a CSS class `line-<style>`."""

    points: Sequence[Point]
    style: str
    label: str = ""
    """Goes into the legend; empty: it does not."""


@dataclass(frozen=True)
class Mark:
    """Something that happened at one place of the x axis."""

    x: float
    style: str
    """A CSS class `mark-<style>`; `restart` is a line across, everything else a diamond on the axis."""
    title: str


@dataclass(frozen=True)
class _Frame:
    x_low: float
    x_high: float
    y_low: float
    y_high: float

    def x(self, value: float) -> float:
        return _LEFT + (value - self.x_low) / (self.x_high - self.x_low) * (WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        share = (value - self.y_low) / (self.y_high - self.y_low)
        return HEIGHT - _BOTTOM - min(max(share, 0.0), 1.0) * (HEIGHT - _TOP - _BOTTOM)


def line_figure(
    lines: Sequence[Line], *, title: str, x_label: str, y_format: Callable[[float], str], marks: Sequence[Mark] = (),
    from_zero: bool = False,
) -> str:  # fmt: skip
    """The SVG element, or an empty string when there is nothing to draw.

    A lone outlier, as the first step's time, does not flatten the rest: values beyond the scale are drawn as
    arrowheads at its top, with their value as tooltip.
    """
    drawn = [point for line in lines for point in line.points if math.isfinite(point[1])]
    if not drawn:
        return ""
    frame, y_ticks = _frame(drawn, from_zero)
    parts = [
        f'<svg class="figure" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">',
        f"<title>{escape(title)}</title>",
        *_grid(frame, y_ticks, y_format),
        *_x_axis(frame, x_label),
        *(_mark(frame, mark) for mark in marks if frame.x_low <= mark.x <= frame.x_high),
    ]
    for line in lines:
        parts.extend(_line(frame, line, y_format, x_label))
    return "".join([*parts, "</svg>"])


def ticks(low: float, high: float, *, at_most: int, whole: bool = False) -> list[float]:
    """Round numbers (1, 2 or 5 times a power of ten) from at or below `low` to at or above `high`."""
    span = (high - low) or abs(high) or 1.0
    step = 10.0 ** math.floor(math.log10(span / at_most))
    step *= next(factor for factor in (1, 2, 5, 10, 20) if span / (step * factor) <= at_most)
    if whole:
        step = max(1.0, step)
    first = math.floor(low / step + 1e-9)
    last = max(math.ceil(high / step - 1e-9), first + 1)
    return [round(number * step, 12) for number in range(first, last + 1)]


def _frame(points: Sequence[Point], from_zero: bool) -> tuple[_Frame, list[float]]:
    values = sorted(y for _, y in points)
    usual = values[min(len(values) - 1, int(len(values) * 0.98))]
    bulk = values[int(len(values) * 0.9)]
    # One value in fifty may stand out; when it towers over the rest, the rest sets the scale.
    high = usual if values[-1] > 2 * bulk > 0 and from_zero else values[-1]
    y_ticks = ticks(0.0 if from_zero else values[0], high, at_most=5)
    xs = [x for x, _ in points]
    low, high_x = min(xs), max(xs)
    return _Frame(low, high_x if high_x > low else low + 1, y_ticks[0], y_ticks[-1]), y_ticks


def _grid(frame: _Frame, y_ticks: Sequence[float], y_format: Callable[[float], str]) -> list[str]:
    parts = []
    for value in y_ticks:
        y = f"{frame.y(value):.1f}"
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y}" y2="{y}"/>')
        parts.append(f'<text class="tick" x="{_LEFT - 8}" y="{y}" dy="0.32em" text-anchor="end">')
        parts.append(f"{escape(y_format(value))}</text>")
    return parts


def _x_axis(frame: _Frame, label: str) -> list[str]:
    bottom = HEIGHT - _BOTTOM
    parts = []
    for value in ticks(frame.x_low, frame.x_high, at_most=8, whole=True):
        if frame.x_low <= value <= frame.x_high:
            x = f"{frame.x(value):.1f}"
            parts.append(f'<line class="axis" x1="{x}" x2="{x}" y1="{bottom}" y2="{bottom + 4}"/>')
            parts.append(f'<text class="tick" x="{x}" y="{bottom + 17}" text-anchor="middle">{value:g}</text>')
    parts.append(f'<line class="axis" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{bottom}" y2="{bottom}"/>')
    parts.append(f'<text class="tick" x="{WIDTH - _RIGHT}" y="{HEIGHT - 3}" text-anchor="end">{escape(label)}</text>')
    return parts


def _mark(frame: _Frame, mark: Mark) -> str:
    x, bottom = frame.x(mark.x), HEIGHT - _BOTTOM
    title = f"<title>{escape(mark.title)}</title>"
    if mark.style == "restart":
        return f'<line class="mark-restart" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{bottom}">{title}</line>'
    return f'<path class="mark-{mark.style}" d="M{x:.1f} {bottom - 6}l5 6l-5 6l-5 -6z">{title}</path>'


def _line(frame: _Frame, line: Line, y_format: Callable[[float], str], x_label: str) -> list[str]:
    points = [point for point in line.points if math.isfinite(point[1])]
    path = " ".join(f"{frame.x(x):.1f},{frame.y(y):.1f}" for x, y in points)
    parts = [f'<polyline class="line-{line.style}" points="{path}"/>'] if len(points) > 1 else []
    if len(points) <= 250:  # a dot each to point at; more would only be weight
        for x, y in points:
            said = f"{x_label} {x:g}: {y_format(y)}"
            parts.append(f'<circle class="dot-{line.style}" cx="{frame.x(x):.1f}" cy="{frame.y(y):.1f}" r="3">')
            parts.append(f"<title>{escape(said)}</title></circle>")
    for x, y in points:
        if y > frame.y_high:
            said = f"{x_label} {x:g}: {y_format(y)}, beyond this scale"
            parts.append(f'<path class="beyond" d="M{frame.x(x) - 5:.1f} {_TOP + 7}l5 -8l5 8z">')
            parts.append(f"<title>{escape(said)}</title></path>")
    return parts
