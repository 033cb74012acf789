"""One bridge on the host, a network namespace with a cable to it for each machine, and routes to every node's pods."""

import json
from pathlib import Path

from infra.devcluster.commands import in_netns, run
from infra.devcluster.layout import BRIDGE, STATE, SUBNET, Layout, Machine

FORWARDING = "/proc/sys/net/ipv4/ip_forward"
REMEMBERED = STATE / "ip_forward"


def up(layout: Layout) -> None:
    """Everything that is not there yet; what is there stays as it is."""
    if not REMEMBERED.exists():
        REMEMBERED.write_text(Path(FORWARDING).read_text())
    Path(FORWARDING).write_text("1")
    if BRIDGE not in links():
        run(["ip", "link", "add", BRIDGE, "type", "bridge"])
        run(["ip", "address", "add", f"{layout.host_address}/{SUBNET.prefixlen}", "dev", BRIDGE])
    run(["ip", "link", "set", BRIDGE, "up"])
    for machine in layout.machines:
        _machine_up(machine, layout)
    for node in layout.nodes:
        run(["ip", "route", "replace", node.pods, "via", node.address])
        for other in layout.machines:
            if other != node:
                run(in_netns(other.netns_path, "ip", "route", "replace", node.pods, "via", node.address))


def _machine_up(machine: Machine, layout: Layout) -> None:
    if machine.netns not in namespaces():
        run(["ip", "netns", "add", machine.netns])
    if machine.link not in links():
        run(["ip", "link", "add", machine.link, "type", "veth", "peer", "name", "eth0", "netns", machine.netns])
        run(["ip", "link", "set", machine.link, "master", BRIDGE])
    run(["ip", "link", "set", machine.link, "up"])
    inside = machine.netns_path
    run(in_netns(inside, "ip", "link", "set", "lo", "up"))
    run(in_netns(inside, "ip", "address", "replace", f"{machine.address}/{SUBNET.prefixlen}", "dev", "eth0"))
    run(in_netns(inside, "ip", "link", "set", "eth0", "up"))
    run(in_netns(inside, "ip", "route", "replace", "default", "via", layout.host_address))
    run(in_netns(inside, "sh", "-c", f"echo 1 > {FORWARDING}"))


def cut(machine: Machine) -> None:
    """Pull its cable."""
    run(["ip", "link", "set", machine.link, "down"])


def mend(machine: Machine) -> None:
    run(["ip", "link", "set", machine.link, "up"])


def machine_down(machine: Machine) -> None:
    if machine.link in links():
        run(["ip", "link", "delete", machine.link])
    if machine.netns in namespaces():
        run(["ip", "netns", "delete", machine.netns])


def down() -> None:
    """The bridge with its routes, every namespace of ours, and forwarding as it was."""
    for name in sorted(links()):
        if name.startswith("ag-"):
            run(["ip", "link", "delete", name])
    for name in sorted(namespaces()):
        run(["ip", "netns", "delete", name])
    if BRIDGE in links():
        run(["ip", "link", "delete", BRIDGE])
    if REMEMBERED.exists():
        Path(FORWARDING).write_text(REMEMBERED.read_text())
        REMEMBERED.unlink()


def links() -> set[str]:
    return {str(link["ifname"]) for link in json.loads(run(["ip", "-json", "link", "show"]))}


def namespaces() -> set[str]:
    """Of ours."""
    folder = Path("/run/netns")
    return {entry.name for entry in folder.iterdir() if entry.name.startswith("argosy-")} if folder.is_dir() else set()
