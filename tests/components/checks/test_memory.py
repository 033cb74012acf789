"""Memory and cores: limits read from cgroups of both versions, judged as values."""

from collections.abc import Callable
from pathlib import Path

import pytest

from components.checks.cores import cores_question, judge_cores, usable_cores
from components.checks.memory import FreeMemory, free_memory, judge_memory, memory_question
from components.contracts.checks import CheckResult, CheckStatus

Tree = Callable[[dict[str, str]], Path]
MIB, GIB = 1 << 20, 1 << 30
MEMINFO = {"proc/meminfo": "MemTotal: 16777216 kB\nMemFree: 100 kB\nMemAvailable:    8388608 kB\n"}  # 8 GiB available


def free_in(root: Path) -> FreeMemory:
    return free_memory(proc=root / "proc", cgroups=root / "cgroup")


def test_without_a_limit_what_the_kernel_calls_available_counts(tree: Tree) -> None:
    root = tree({**MEMINFO, "proc/self/cgroup": "0::/\n"})
    assert free_in(root) == FreeMemory(8 * GIB, "MemAvailable")


def test_a_version_2_limit_counts_with_its_unused_file_cache_given_back(tree: Tree) -> None:
    root = tree({
        **MEMINFO, "proc/self/cgroup": "0::/pod/container\n",
        "cgroup/pod/container/memory.max": f"{2 * GIB}\n", "cgroup/pod/container/memory.current": f"{GIB}\n",
        "cgroup/pod/container/memory.stat": f"anon 5\ninactive_file {256 * MIB}\n",
    })  # fmt: skip
    assert free_in(root) == FreeMemory(GIB + 256 * MIB, "cgroup limit 2.0 GiB")


def test_the_tightest_of_nested_limits_counts(tree: Tree) -> None:
    root = tree({
        **MEMINFO, "proc/self/cgroup": "0::/pod/container\n",
        "cgroup/pod/container/memory.max": "max\n", "cgroup/pod/container/memory.current": f"{GIB}\n",
        "cgroup/pod/memory.max": f"{3 * GIB}\n", "cgroup/pod/memory.current": f"{2 * GIB}\n",
    })  # fmt: skip
    assert free_in(root) == FreeMemory(GIB, "cgroup limit 3.0 GiB")


def test_a_version_1_limit_counts(tree: Tree) -> None:
    root = tree({
        **MEMINFO, "proc/self/cgroup": "4:memory:/pod\n3:cpuset:/\n0::/\n",
        "cgroup/memory/pod/memory.limit_in_bytes": f"{4 * GIB}\n",
        "cgroup/memory/pod/memory.usage_in_bytes": f"{3 * GIB}\n",
        "cgroup/memory/pod/memory.stat": f"inactive_file 9\ntotal_inactive_file {128 * MIB}\n",
        "cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n", "cgroup/memory/memory.usage_in_bytes": "5\n",
    })  # fmt: skip
    assert free_in(root) == FreeMemory(GIB + 128 * MIB, "cgroup limit 4.0 GiB")


def test_inside_a_container_the_limit_at_the_root_counts(tree: Tree) -> None:
    # The path is the host's, the container sees its own cgroup as the root.
    root = tree({
        **MEMINFO, "proc/self/cgroup": "0::/kubepods/pod1/abc\n",
        "cgroup/memory.max": f"{GIB}\n", "cgroup/memory.current": f"{GIB // 2}\n",
    })  # fmt: skip
    assert free_in(root) == FreeMemory(GIB // 2, "cgroup limit 1.0 GiB")


def test_a_group_over_its_limit_has_nothing_left_rather_than_less(tree: Tree) -> None:
    root = tree(
        {**MEMINFO, "proc/self/cgroup": "0::/\n", "cgroup/memory.max": "100\n", "cgroup/memory.current": "200\n"}
    )
    assert free_in(root).available_bytes == 0


def test_a_machine_that_does_not_tell_raises(tree: Tree) -> None:
    with pytest.raises(OSError, match="meminfo"):
        free_in(tree({"proc/other": ""}))
    with pytest.raises(OSError, match="no MemAvailable line"):
        free_in(tree({"proc/meminfo": "MemTotal: 5 kB\n"}))


def test_this_machine_has_some_memory_free() -> None:
    assert 0 < free_memory().available_bytes < 1 << 50


def judged(available: int, *, ranks: int = 4, per_rank: int = GIB) -> CheckResult:
    question = memory_question(num_ranks=ranks, per_rank_bytes=per_rank)
    free = FreeMemory(available, "MemAvailable")
    return judge_memory(question, free=free, num_ranks=ranks, per_rank_bytes=per_rank)


def test_ranks_that_fit_are_fine() -> None:
    result = judged(4 * GIB)
    assert (result.status, result.measured) == (CheckStatus.OK, "4.0 GiB available (MemAvailable)")
    assert result.expected == "4.0 GiB for 4 ranks of 1.0 GiB"


def test_too_many_ranks_fail_and_the_number_that_fits_is_named() -> None:
    result = judged(3 * GIB + 5)
    assert result.status is CheckStatus.FAIL
    assert result.measured == "3.0 GiB available (MemAvailable): room for 3 of 4 ranks"
    assert result.remedy.startswith("start at most 3 ranks here (launch.num_nodes, launch.nproc_per_node)")


def test_when_not_even_one_rank_fits_no_number_is_suggested() -> None:
    result = judged(5)
    assert "room for 0 of 4 ranks" in result.measured
    assert result.remedy.startswith("free memory")


def test_memory_that_was_not_declared_is_reported_only() -> None:
    assert judged(5, per_rank=0).status is CheckStatus.OK


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"proc/self/cgroup": "0::/pod\n", "cgroup/pod/cpu.max": "50000 100000\n"}, 0.5),
        (
            {"proc/self/cgroup": "0::/pod\n", "cgroup/cpu.max": "max 100000\n", "cgroup/pod/cpu.max": "75000 100000"},
            0.75,
        ),
        (
            {
                "proc/self/cgroup": "2:cpu,cpuacct:/pod\n",
                "cgroup/cpu/pod/cpu.cfs_quota_us": "25000\n",
                "cgroup/cpu/pod/cpu.cfs_period_us": "100000\n",
                "cgroup/cpu/cpu.cfs_quota_us": "-1\n",
                "cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            0.25,
        ),
    ],
)
def test_a_quota_cuts_the_cores_down(tree: Tree, files: dict[str, str], cores: float) -> None:
    root = tree(files)
    assert usable_cores(proc=root / "proc", cgroups=root / "cgroup") == cores


def test_without_a_quota_the_affinity_counts(tree: Tree) -> None:
    root = tree({"proc/self/cgroup": "0::/\n", "cgroup/cpu.max": "max 100000\n"})
    assert usable_cores(proc=root / "proc", cgroups=root / "cgroup") >= 1


def test_too_few_cores_warn_and_never_stop_a_run() -> None:
    question = cores_question(num_ranks=4)
    result = judge_cores(question, cores=1.5, num_ranks=4)
    assert (result.status, result.blocks, result.measured) == (CheckStatus.WARN, False, "1.5 cores usable")
    assert judge_cores(question, cores=4.0, num_ranks=4).status is CheckStatus.OK
