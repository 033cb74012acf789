"""Which control group hierarchies count."""

from pathlib import Path

from infra.devcluster.cgroups import mounts

FIRST = """tmpfs /sys/fs/cgroup tmpfs rw 0 0
cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0
cgroup /sys/fs/cgroup/pids cgroup rw,pids 0 0
"""
SECOND = "cgroup2 {} cgroup2 rw,nosuid 0 0\n"


def test_version_2_is_one_hierarchy() -> None:
    assert mounts(SECOND.format("/sys/fs/cgroup")) == ([Path("/sys/fs/cgroup")], True)


def test_version_1_wins_where_both_are_mounted() -> None:
    table = FIRST + SECOND.format("/sys/fs/cgroup/unified")
    assert mounts(table) == ([Path("/sys/fs/cgroup/cpu,cpuacct"), Path("/sys/fs/cgroup/pids")], False)


def test_a_host_without_any_has_none() -> None:
    assert mounts("proc /proc proc rw 0 0\n") == ([], True)
