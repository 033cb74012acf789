"""What the host must have, told by name when it does not; nothing is installed but on request."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from components.errors import ArgosyError, BadInput, Problem
from infra.devcluster import cgroups
from infra.devcluster.build import INSTALL_GO, find_go, go_version
from infra.devcluster.commands import run
from infra.devcluster.node import CNI_PROGRAMS
from infra.devcluster.running import RECORD

PACKAGES = {
    "containerd": "containerd", "ctr": "containerd", "runc": "runc", "buildah": "buildah", "debootstrap": "debootstrap",
    "conntrack": "conntrack", "nft": "nftables", "ip": "iproute2", "nsenter": "util-linux", "openssl": "openssl",
    "mount": "mount", "tar": "tar",
}  # fmt: skip
"""Program, and the Debian package that has it."""

CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory", "pids", "devices", "freezer")
NEEDED_BYTES = 12 << 30
NEEDED_BESIDE_BYTES = 2 << 30
"""Where a cluster has been made already, which holds what it needs."""


def check() -> None:
    """Raises BadInput with everything that is missing, and which of it `make cluster-host` brings."""
    problems = list(missing())
    if problems:
        raise BadInput(
            "HostLacks", f"this host cannot run the development cluster: {len(problems)} things are missing",
            "make cluster-host installs the packages", problems=problems,
        )  # fmt: skip


def missing() -> list[Problem]:
    """Everything at once."""
    found: list[Problem] = []
    if os.uname().sysname != "Linux" or os.uname().machine not in ("x86_64", "aarch64"):
        return [Problem("host", f"is {os.uname().sysname} on {os.uname().machine}", "a Linux host is needed")]
    if os.geteuid() != 0:
        found.append(Problem("user", "is not root", "namespaces, mounts and control groups are made: run it as root"))
    elif not _may_isolate():
        found.append(Problem("user", "may not make namespaces", "run it outside a container, or in a privileged one"))
    for program, package in PACKAGES.items():
        if shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") is None:
            found.append(Problem(program, "is not installed", f"Debian package {package}"))
    for program in ("bridge", "host-local", "loopback"):
        if not (CNI_PROGRAMS / program).exists():
            found.append(
                Problem(str(CNI_PROGRAMS / program), "is absent", "Debian package containernetworking-plugins")
            )
    if find_go() is None:
        found.append(Problem("go", "is not installed", INSTALL_GO))
    elif _older(go_version(), (1, 26)):
        found.append(Problem("go", f"is {go_version()}", INSTALL_GO))
    if "overlay" not in Path("/proc/filesystems").read_text().split():
        found.append(Problem("kernel", "has no overlayfs", "load the module overlay"))
    found += _controllers()
    found += _disk(Path("/var/lib"), needed=NEEDED_BESIDE_BYTES if RECORD.exists() else NEEDED_BYTES)
    return found


def _disk(folder: Path, *, needed: int) -> list[Problem]:
    free = shutil.disk_usage(folder).free
    return [] if free >= needed else [
        Problem(str(folder), f"has {free >> 30} GiB free", f"{needed >> 30} GiB are needed")
    ]  # fmt: skip


def _may_isolate() -> bool:
    """Root in an ordinary container may not."""
    try:
        run(["unshare", "--net", "--mount", "--pid", "--fork", "true"], seconds=30)
    except ArgosyError:
        return False
    return True


def _controllers() -> list[Problem]:
    hierarchies, second = cgroups.mounts()
    if second:
        return [] if hierarchies else [Problem("control groups", "are not mounted", "mount cgroup2 on /sys/fs/cgroup")]
    names = {name for folder in hierarchies for name in folder.name.split(",")}
    return [
        Problem("control groups", f"controller {name} is not mounted", "the kubelet needs it")
        for name in CONTROLLERS if name not in names
    ]  # fmt: skip


def _older(version: str, wanted: tuple[int, int]) -> bool:
    parts = version.removeprefix("go").split(".")
    return tuple(int(p) for p in parts[:2] if p.isdigit()) < wanted


def install(say: Callable[[str], None]) -> None:
    """The Debian packages, all of them, if one lacks."""
    if not any("Debian package" in problem.fix for problem in missing()):
        return
    names = sorted({*PACKAGES.values(), "containernetworking-plugins"})
    say(f"apt-get install {' '.join(names)}")
    run(["apt-get", "update", "--quiet"])
    run(
        ["apt-get", "install", "--yes", "--quiet", "--no-install-recommends", *names],
        env={"DEBIAN_FRONTEND": "noninteractive"},
    )
