"""Are there cores enough for the ranks? Too few only slow them down, so this warns."""

import os
from collections.abc import Iterator
from pathlib import Path

from components.checks.question import Question
from components.contracts.checks import CheckResult


def usable_cores(*, proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")) -> float:
    """Cores this process may use: its affinity, cut down by the CPU quota of every enclosing cgroup (v1 and v2)."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min([float(affinity), *_quotas(proc, cgroups)])


def cores_question(*, num_ranks: int, subject: str = "") -> Question:
    """Asks for a core a rank."""
    return Question(
        name="cores", scope="node", subject=subject, hard=False, expected=f"{num_ranks} cores for {num_ranks} ranks",
        origin="one core a rank", remedy="expect slower steps, or start fewer ranks",
    )  # fmt: skip


def judge_cores(question: Question, *, cores: float, num_ranks: int) -> CheckResult:
    measured = f"{cores:g} cores usable"
    return question.ok(measured) if cores >= num_ranks else question.fail(measured)


def _quotas(proc: Path, cgroups: Path) -> Iterator[float]:
    for line in _words(proc / "self/cgroup"):
        hierarchy, controllers, path = line.split(":", 2)
        if hierarchy == "0":
            for folder in _upwards(cgroups, path):
                quota, _, period = "".join(_words(folder / "cpu.max")).partition(" ")
                if quota.isdigit():
                    yield int(quota) / int(period or 100_000)
        elif "cpu" in controllers.split(","):
            for folder in _upwards(cgroups / "cpu", path):
                quota, period = ("".join(_words(folder / f"cpu.cfs_{name}_us")) for name in ("quota", "period"))
                if quota.isdigit() and period.isdigit():
                    yield int(quota) / int(period)


def _upwards(mount: Path, path: str) -> Iterator[Path]:
    folder = mount / path.strip("/")
    while folder != mount and mount in folder.parents:
        yield folder
        folder = folder.parent
    yield mount


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
