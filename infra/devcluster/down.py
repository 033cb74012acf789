"""Take the cluster away: processes, containers, mounts, namespaces, control groups, routes, files.

Nothing by the name of a program: only what is in our control groups, below our folder, or bears our network names.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
from collections.abc import Callable, Iterable
from pathlib import Path

from components.errors import ArgosyError
from infra.devcluster import cgroups, kueue, manifests, network, node
from infra.devcluster.commands import run
from infra.devcluster.layout import BUILD, LOGS, MAX_NODES, NAME, STATE, Layout, Machine, Node
from infra.devcluster.process import RECORDS, end, is_alive

CNI_CACHE = Path("/var/lib/cni/results")
SHIM_SOCKETS = Path("/run/containerd/s")
_CONTAINER = re.compile(r"io\.containerd\.runtime\.v2\.task/k8s\.io/([0-9a-f]{64})")
"""As a container runtime's log names each container it starts."""
POD_LOG_LINKS = Path("/var/log/containers")


def down(say: Callable[[str], None], *, keep_images: bool = True) -> None:
    """Idempotent; works on what a killed `up` or another checkout left."""
    say(f"ended {cgroups.kill(f'/{NAME}') + _kill_recorded()} processes")
    shared = _strays()
    say(f"unmounted {unmount_below(STATE)} mounts")
    network.down()
    if cgroups.exists(f"/{NAME}"):
        cgroups.remove(f"/{NAME}")
    for path in shared:
        path.unlink(missing_ok=True)
    for folder in (CNI_CACHE, SHIM_SOCKETS, SHIM_SOCKETS.parent):
        with contextlib.suppress(OSError):  # not there, or others use it
            folder.rmdir()
    _remove_log_links()
    kueue.forget()
    for name in ("env", "kubeconfig", "ca.crt"):
        (BUILD / name).unlink(missing_ok=True)
    _remove_files(keep_images)
    say("down")


def power_off(machine: Machine) -> int:
    """As if its plug were pulled: everything that runs on it ends at once, and its cable is cut."""
    network.cut(machine)
    ended = cgroups.kill(machine.cgroup)
    unmount_below(machine.folder)
    return ended


def remove_node(machine: Node, layout: Layout) -> None:
    """Take a node out for good."""
    cgroups.kill(machine.cgroup)
    unmount_below(machine.folder)
    network.machine_down(machine)
    if cgroups.exists(machine.cgroup):
        cgroups.remove(machine.cgroup)
    for component in node.components(machine, layout):
        component.record.unlink(missing_ok=True)
    shutil.rmtree(machine.folder, ignore_errors=True)
    with contextlib.suppress(ArgosyError):  # the API server may be down as well; the node is then NotReady for good
        manifests.kubectl(layout, "delete", "node", machine.name, "--ignore-not-found")


def unmount_below(folder: Path) -> int:
    """Innermost first, until none is left. Before any deletion there: a claim's volume may be the host's own files."""
    count = 0
    for _ in range(20):
        points = mounts_below(folder, Path("/proc/self/mountinfo").read_text())
        if not points:
            return count
        for point in points:
            run(["umount", "--lazy", "--no-mtab", point], ok=(0, 1, 32))
            count += 1
    raise RuntimeError(f"mounts below {folder} come back: {points}")


def mounts_below(folder: Path, table: str) -> list[str]:
    """Mount points at or below it, innermost first; the kernel writes spaces in octal."""
    points = [line.split()[4].replace("\\040", " ") for line in table.splitlines()]
    inside = [point for point in points if point == str(folder) or point.startswith(f"{folder}/")]
    return sorted(inside, key=len, reverse=True)


def _kill_recorded() -> int:
    """Those recorded but in none of our groups: started on a host whose groups somebody removed."""
    count = 0
    for path in RECORDS.glob("*.json") if RECORDS.is_dir() else ():
        with contextlib.suppress(OSError, ValueError):
            record = json.loads(path.read_text())
            if is_alive(record):
                count += end(record, signal.SIGKILL)
    return count


def strays(machine: Node, ids: Iterable[str], results: Iterable[Path]) -> list[Path]:
    """Files about those containers in folders that all of a host's containerds and network plugins share."""
    known = set(ids)
    named = (
        f"{machine.containerd_socket}/k8s.io/{i}" for i in sorted(known)
    )  # as containerd names a supervisor's socket
    sockets = [SHIM_SOCKETS / hashlib.sha256(name.encode()).hexdigest() for name in named]
    return sockets + [path for path in results if path.name.startswith(f"{NAME}-") or known & set(path.name.split("-"))]


def _strays() -> list[Path]:
    found: list[Path] = []
    results = list(CNI_CACHE.iterdir()) if CNI_CACHE.is_dir() else []
    for machine in Layout(MAX_NODES).nodes:
        log = LOGS / f"containerd-{machine.name}.log"
        ids = set(_CONTAINER.findall(log.read_text(errors="replace"))) if log.exists() else set()
        found += strays(machine, ids, results)
    return found


def _remove_log_links() -> None:
    if POD_LOG_LINKS.is_dir():
        for link in POD_LOG_LINKS.iterdir():
            if link.is_symlink() and os.readlink(link).startswith(f"{STATE}/"):
                link.unlink()


def _remove_files(keep_images: bool) -> None:
    left = mounts_below(STATE, Path("/proc/self/mountinfo").read_text())
    if left:
        raise RuntimeError(f"still mounted below {STATE}: {left}")
    if not keep_images:
        shutil.rmtree(STATE, ignore_errors=True)
        return
    for entry in STATE.iterdir() if STATE.is_dir() else ():
        if entry.name.startswith("node-"):
            _keep_image_store(entry)
        elif entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def _keep_image_store(folder: Path) -> None:
    for entry in folder.iterdir():
        if entry.name != "containerd":
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    shutil.rmtree(folder / "containerd" / "root" / "io.containerd.grpc.v1.cri", ignore_errors=True)  # of containers
    for entry in (folder / "containerd").iterdir() if (folder / "containerd").is_dir() else ():
        if entry.name != "root":
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
