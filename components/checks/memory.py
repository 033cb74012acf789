"""Do the ranks fit into memory? Honours the limits of cgroups v1 and v2 as well as what the machine has free."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from components.checks.question import Question
from components.contracts.checks import CheckResult
from components.contracts.units import format_size

_UNLIMITED = 1 << 60
"""cgroup v1 writes a number near 2^63 for "no limit"."""

_POD_TOO_SMALL = "raise launch.resources.memory, or lower preflight.memory_per_rank when the ranks need less"


@dataclass(frozen=True)
class FreeMemory:
    """How much more this process and its children may use, and what sets that limit."""

    available_bytes: int
    origin: str
    is_pods_own: bool = False
    """Whether that is a limit of the pod's own, which goes wherever the pod goes."""


def free_memory(*, proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")) -> FreeMemory:
    """The smallest of what the kernel calls available and what each enclosing cgroup leaves.

    Raises OSError where the kernel does not tell (no /proc).
    """
    candidates = [FreeMemory(_available(proc / "meminfo"), "MemAvailable"), *_cgroup_rooms(proc, cgroups)]
    return min(candidates, key=lambda candidate: candidate.available_bytes)


def memory_question(*, num_ranks: int, per_rank_bytes: int, subject: str = "") -> Question:
    """Asks for room for `num_ranks` ranks of `per_rank_bytes` on this machine."""
    return Question(
        name="memory", scope="node", subject=subject,
        expected=f"{format_size(num_ranks * per_rank_bytes)} for {num_ranks} ranks of {format_size(per_rank_bytes)}",
        origin="preflight.memory_per_rank × ranks on this machine", remedy="free memory, or start fewer ranks",
    )  # fmt: skip


def judge_memory(question: Question, *, free: FreeMemory, num_ranks: int, per_rank_bytes: int) -> CheckResult:
    """The answer for this much free memory; names how many ranks would fit."""
    measured = f"{format_size(free.available_bytes)} available ({free.origin})"
    if not per_rank_bytes:
        return question.ok(f"{measured}; memory per rank not declared, so not compared")
    num_fitting = max(0, free.available_bytes // per_rank_bytes)
    if num_fitting < num_ranks and free.is_pods_own:
        described = replace(question, scope="input", remedy=_POD_TOO_SMALL)
        return described.fail(f"{measured}: room for {num_fitting} of {num_ranks} ranks")
    if num_fitting < num_ranks:
        return question.fail(
            f"{measured}: room for {num_fitting} of {num_ranks} ranks",
            f"start at most {num_fitting} ranks here (launch.num_nodes, launch.nproc_per_node), free memory, or lower "
            "preflight.memory_per_rank when the ranks need less"
            if num_fitting
            else "free memory, or lower preflight.memory_per_rank when the ranks need less",
        )
    return question.ok(measured)


def _available(meminfo: Path) -> int:
    for line in meminfo.read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"{meminfo} has no MemAvailable line")


def _cgroup_rooms(proc: Path, cgroups: Path) -> Iterator[FreeMemory]:
    for line in _lines(proc / "self/cgroup"):
        hierarchy, controllers, path = line.split(":", 2)
        if hierarchy == "0":
            names = ("memory.max", "memory.current", "inactive_file")
            for mount in (cgroups, cgroups / "unified"):
                yield from _rooms_above(mount, path, names)
        elif "memory" in controllers.split(","):
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            yield from _rooms_above(cgroups / "memory", path, names)


def _rooms_above(mount: Path, path: str, names: tuple[str, str, str]) -> Iterator[FreeMemory]:
    """What each cgroup from `path` up to the root leaves. Inside a container the path may not exist: then the root."""
    limit_name, usage_name, cache_name = names
    folder = mount / path.strip("/")
    while True:
        limit, usage = _number(folder / limit_name), _number(folder / usage_name)
        if limit is not None and usage is not None and limit < _UNLIMITED:
            # Unused file cache is given back before anything is killed, so it counts as free.
            room = limit - usage + _statistic(folder / "memory.stat", cache_name)
            yield FreeMemory(max(0, room), f"cgroup limit {format_size(limit)}")
        if folder == mount or mount not in folder.parents:
            return
        folder = folder.parent


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def _number(path: Path) -> int | None:
    lines = _lines(path)
    return int(lines[0]) if lines and lines[0].isdigit() else None


def _statistic(path: Path, name: str) -> int:
    for line in _lines(path):
        key, _, value = line.partition(" ")
        if key == name:
            return int(value)
    return 0
