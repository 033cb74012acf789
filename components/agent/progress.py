"""Reads the progress lines that ranks append: torn, repeated, absurd or missing ones must not matter."""

import json
import math
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from components.contracts.gang import StepView

MAX_POLL_BYTES = 256 << 10
_MAX_LINE_BYTES = 64 << 10
_MAX_COUNT = 2**53
_MAX_METRICS = 32
_TIMES = {"step_s": "step_seconds", "data_s": "data_seconds", "compute_s": "compute_seconds", "comm_s": "comm_seconds"}


@dataclass(frozen=True)
class ProgressLine:
    """One line that made sense. A line may tell `total_steps` before the first step."""

    step: int | None
    total_steps: int | None = None
    tokens: int | None = None
    times: dict[str, float] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    """Every other finite number in the line, loss among them."""

    def view(self, at: str) -> StepView:
        assert self.step is not None
        return StepView(step=self.step, at=at, loss=self.metrics.get("loss"), tokens=self.tokens, **self.times)


def parse_line(raw: bytes) -> ProgressLine | None:
    """The line, or None when it is not a JSON object that tells a step or the number of steps."""
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    step, total = _count(value.get("step"), least=0), _count(value.get("total_steps"), least=1)
    if step is None and total is None:
        return None
    numbers = {key: number for key, item in value.items() if (number := _number(item)) is not None}
    return ProgressLine(
        step, total, _count(value.get("tokens"), least=0),
        times={name: numbers[key] for key, name in _TIMES.items() if numbers.get(key, -1) >= 0},
        metrics=dict([(key, number) for key, number in numbers.items() if _is_metric(key)][:_MAX_METRICS]),
    )  # fmt: skip


class ProgressTail:
    """Follows one file that somebody else appends to, or not."""

    def __init__(self, path: Path) -> None:
        self._path, self._offset, self._rest = path, 0, b""

    def poll(self) -> list[ProgressLine]:
        """Lines completed since the last call; at most 256 KiB of them, the rest comes next time."""
        data = self._read()
        if not data:
            return []
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > _MAX_LINE_BYTES:
            self._rest = b"#"  # never JSON, whatever follows up to the end of the line
        return [line for raw in lines if (line := parse_line(raw)) is not None]

    def _read(self) -> bytes:
        try:
            # Not to be stopped by a pipe or a device of that name.
            descriptor = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return b""
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                return b""
            if status.st_size < self._offset:  # written anew
                self._offset, self._rest = 0, b""
            data = os.pread(descriptor, MAX_POLL_BYTES, self._offset)
        except OSError:
            return b""
        finally:
            os.close(descriptor)
        self._offset += len(data)
        return data


def _count(value: Any, *, least: int) -> int | None:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return value if is_whole and least <= value < _MAX_COUNT else None


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _is_metric(key: str) -> bool:
    return len(key) <= 64 and key not in ("step", "total_steps", "tokens", *_TIMES)
