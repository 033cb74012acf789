"""Timing whole processes, paired with the thing they are compared to, and telling whether a bar is met."""

import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
ENTRY = str(ROOT / "pipelines" / "train.py")


@dataclass(frozen=True)
class Figure:
    """One line of the table: what was measured, how much, and the bar it should stay below (or above)."""

    name: str
    value: float
    unit: str
    bar: float | None = None
    at_least: bool = False

    @property
    def is_met(self) -> bool:
        return self.bar is None or (self.value >= self.bar if self.at_least else self.value <= self.bar)

    def __str__(self) -> str:
        bar = "" if self.bar is None else f"{'≥' if self.at_least else '≤'} {self.bar:g}"
        verdict = "" if self.bar is None else "ok" if self.is_met else "MISSED"
        return f"{self.name:<58} {self.value:>10.3f} {self.unit:<8} {bar:<10} {verdict}"


def wall_seconds(argv: Sequence[str], *, env: Mapping[str, str] | None = None, repeat: int = 7) -> float:
    """Median wall time of the whole process, after one unmeasured run."""
    return statistics.median(_once(argv, env) for number in range(repeat + 1) if number or _once(argv, env))


def paired_cpu_ratio(argv: Sequence[str], base: Sequence[str], *, repeat: int = 9) -> float:
    """Median of (argv / base) in CPU seconds, each pair measured back to back.

    CPU time, because whatever else runs on the machine takes wall time from one of the two and not from the other.
    """
    _cpu_seconds(argv), _cpu_seconds(base)
    return statistics.median(_cpu_seconds(argv) / _cpu_seconds(base) for _ in range(repeat))


def _cpu_seconds(argv: Sequence[str]) -> float:
    before = cpu_seconds_of_children()
    _once(argv, None)
    return cpu_seconds_of_children() - before


def cpu_seconds_of_children() -> float:
    """User and system time of every child waited for so far."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def python(*arguments: str) -> list[str]:
    return [sys.executable, *arguments]


def _once(argv: Sequence[str], env: Mapping[str, str] | None) -> float:
    began = time.perf_counter()
    subprocess.run(
        list(argv), env={**os.environ, "PYTHONPATH": str(ROOT), **(env or {})}, stdout=subprocess.DEVNULL, check=True
    )
    return time.perf_counter() - began
