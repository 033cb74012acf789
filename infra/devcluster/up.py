"""Bring the cluster up from wherever it is: nothing there, half started, killed, or running already."""

import json
import os
import shutil
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from components.runtime.processes import boot_id
from infra.devcluster import cgroups, control, images, kueue, manifests, network, node, pki
from infra.devcluster.access import write_access
from infra.devcluster.base_image import base_archive
from infra.devcluster.build import build, locked
from infra.devcluster.commands import run
from infra.devcluster.down import down, remove_node
from infra.devcluster.layout import CHECKOUT, PYTHON, STATE, Layout
from infra.devcluster.process import Component, start, wait_ready
from infra.devcluster.running import RECORD

LOCK = Path("/run/lock/argosy-devcluster")

Say = Callable[[str], None]


def prepare(say: Say) -> tuple[images.Image, ...]:
    """Programs and images, built if they changed."""
    with ThreadPoolExecutor(1) as pool:  # debootstrap waits for the network while compilers wait for the processors
        base = pool.submit(base_archive, say)
        build(say)
        base.result()
    return images.build_all(say)


def up(num_nodes: int, say: Say, *, as_built: bool = False, with_kueue: bool = False) -> None:
    """Raises EnvironmentUnfit naming the component and the end of its log when one does not get ready.

    `as_built`: with programs and images as the last build left them, whatever the code says now.
    """
    pictures = images.last_built() if as_built else prepare(say)
    layout = Layout(num_nodes)
    with locked(LOCK):
        is_fresh = _settle(layout, say)
        began = time.monotonic()
        pki.make(layout)
        for machine in layout.machines:
            machine.folder.mkdir(parents=True, exist_ok=True)
            cgroups.create(machine.cgroup)
        network.up(layout)
        say(f"{_since(began)} network and certificates")
        runtimes = [node.containerd(n) for n in layout.nodes]
        _start(runtimes)
        for n in layout.nodes if is_fresh else ():
            images.forget_containers(n)
        _start(control.first(layout))
        say(f"{_since(began)} API server and container runtimes")
        _start(control.second(layout))
        manifests.apply_once(layout, "definitions", manifests.definitions())
        _wait_established(layout)
        manifests.apply_once(layout, "settings", manifests.settings(layout, site_packages()))
        say(f"{_since(began)} custom resources, Roles, webhooks")
        images.import_everywhere(layout.nodes, pictures)
        say(f"{_since(began)} images")
        for n in layout.nodes:
            _start(node.components(n, layout), ready=False)
        _start(control.third(layout))
        for n in layout.nodes:
            for component in node.components(n, layout):
                wait_ready(component)
        _wait_nodes(layout)
        say(f"{_since(began)} controllers, nodes Ready")
        if with_kueue or kueue.is_wanted(layout):
            kueue.install(layout, say)
        write_access(layout, pictures)
        say(f"{_since(began)} up: {num_nodes} nodes; source build/devcluster/env")


def _settle(layout: Layout, say: Say) -> bool:
    """Make what is left of an earlier cluster fit: another checkout's goes, surplus nodes go, a reboot is survived.

    Returns whether the cluster begins anew.
    """
    STATE.mkdir(parents=True, exist_ok=True)
    os.chmod(STATE, 0o711)
    before = json.loads(RECORD.read_text()) if RECORD.exists() else None
    if before and before["checkout"] != str(CHECKOUT):
        say(f"taking down the cluster of {before['checkout']}")
        down(say)
        before = None
    if before and before["boot"] != boot_id():
        say("the host was started anew since: containers of then are forgotten")
        for machine in Layout(before["num_nodes"]).nodes:
            shutil.rmtree(machine.folder / "containerd" / "state", ignore_errors=True)
    if before and before["num_nodes"] > layout.num_nodes:
        for machine in Layout(before["num_nodes"]).nodes[layout.num_nodes :]:
            say(f"removing {machine.name}")
            remove_node(machine, Layout(before["num_nodes"]))
    record = {"checkout": str(CHECKOUT), "boot": boot_id(), "num_nodes": layout.num_nodes}
    RECORD.with_suffix(".new").write_text(json.dumps(record))
    RECORD.with_suffix(".new").rename(RECORD)
    return before is None


def _start(components: Iterable[Component], *, ready: bool = True) -> None:
    chosen = tuple(components)
    for component in chosen:
        start(component)
        if ready and component.name == "etcd":
            wait_ready(component)
    for component in chosen if ready else ():
        wait_ready(component)


def _wait_established(layout: Layout) -> None:
    names = [o["metadata"]["name"] for o in manifests.definitions() if o["kind"] == "CustomResourceDefinition"]
    manifests.kubectl(
        layout, "wait", "--for=condition=Established", "--timeout=60s", *(f"crd/{name}" for name in names)
    )


def _wait_nodes(layout: Layout) -> None:
    deadline = time.monotonic() + 60
    names = [f"node/{n.name}" for n in layout.nodes]
    while time.monotonic() < deadline:  # `kubectl wait` fails at once for a node that has not registered yet
        known = manifests.kubectl(layout, "get", "nodes", "--output=name").split()
        if set(names) <= set(known):
            break
        time.sleep(0.2)
    manifests.kubectl(layout, "wait", "--for=condition=Ready", "--timeout=60s", *names)


def site_packages() -> Path:
    """Of the checkout's own environment, resolved: pods mount it."""
    return Path(run([PYTHON, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]).strip()).resolve()


def _since(began: float) -> str:
    return f"{time.monotonic() - began:5.1f} s"
