"""A node's three programs: container runtime, kubelet, service proxy. Nothing of theirs is shared between nodes.

Two kubelets on one kernel end each other's pods unless each has its own control group root, log folder, and container
runtime with its own root, state, socket and runc folder.
"""

import json
import socket
from collections.abc import Callable
from pathlib import Path

import yaml

from infra.devcluster.commands import write
from infra.devcluster.control import listens
from infra.devcluster.layout import BIN, NAME, Layout, Node
from infra.devcluster.process import Component

CNI_PROGRAMS = Path("/usr/lib/cni")
PAUSE_IMAGE = "localhost/argosy-pause:1"


def containerd(node: Node) -> Component:
    folder = node.folder / "containerd"
    (folder / "cni").mkdir(parents=True, exist_ok=True)
    write(folder / "cni" / "10-bridge.conflist", json.dumps(_cni(node)))
    config = folder / "config.toml"
    write(config, _containerd_config(node, folder))
    return Component(
        f"containerd-{node.name}", node, ("/usr/bin/containerd", "--config", str(config)),
        files=(config, folder / "cni" / "10-bridge.conflist"), missing=_accepts(node.containerd_socket),
    )  # fmt: skip


def kubelet(node: Node, layout: Layout) -> Component:
    folder = node.folder / "kubelet"
    folder.mkdir(parents=True, exist_ok=True)
    config = node.folder / "kubelet.yaml"
    write(config, yaml.safe_dump(kubelet_config(node, layout)))
    write(node.folder / "resolv.conf", f"nameserver {layout.control.address}\n")
    credentials = layout.pki / f"{node.name}.kubeconfig"
    return Component(
        f"kubelet-{node.name}", node,
        (
            str(BIN / "kube" / "kubelet"), f"--config={config}", f"--kubeconfig={credentials}", f"--root-dir={folder}",
            f"--cert-dir={folder / 'pki'}", f"--hostname-override={node.name}", f"--node-ip={node.address}",
        ),
        files=(config, credentials),
        missing=listens(node.address, 10250),
    )  # fmt: skip


def proxy(node: Node, layout: Layout) -> Component:
    config = node.folder / "kube-proxy.yaml"
    write(config, yaml.safe_dump({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration", "mode": "nftables",
        "clientConnection": {"kubeconfig": str(layout.pki / "kube-proxy.kubeconfig")}, "hostnameOverride": node.name,
        "clusterCIDR": "10.214.0.0/16", "conntrack": {"maxPerCore": 0},
        "bindAddress": node.address, "healthzBindAddress": "127.0.0.1:10256", "metricsBindAddress": "127.0.0.1:10249",
    }))  # fmt: skip
    return Component(
        f"kube-proxy-{node.name}", node, (str(BIN / "kube" / "kube-proxy"), f"--config={config}"), files=(config,)
    )


def components(node: Node, layout: Layout) -> tuple[Component, ...]:
    """In order of start."""
    return containerd(node), kubelet(node, layout), proxy(node, layout)


def _accepts(path: Path) -> Callable[[], str]:
    """Ready when something listens there; the file alone may be a dead one's."""

    def missing() -> str:
        try:
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(2)
                client.connect(str(path))
                return ""
        except OSError as error:
            return f"{path}: {error}"

    return missing


def _cni(node: Node) -> dict[str, object]:
    return {
        "cniVersion": "0.4.0", "name": NAME,
        "plugins": [{
            "type": "bridge", "bridge": "cni0", "isGateway": True, "ipMasq": False, "hairpinMode": True,
            "ipam": {
                "type": "host-local", "dataDir": str(node.folder / "addresses"),
                "ranges": [[{"subnet": node.pods}]], "routes": [{"dst": "0.0.0.0/0"}],
            },
        }],
    }  # fmt: skip


def _containerd_config(node: Node, folder: Path) -> str:
    """`restrict_oom_score_adj`: without CAP_SYS_RESOURCE no sandbox could start, since it asks for a score of -998."""
    return f"""version = 2
root = "{folder / "root"}"
state = "{folder / "state"}"

[grpc]
  address = "{node.containerd_socket}"

[plugins."io.containerd.internal.v1.opt"]
  path = "{folder / "opt"}"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  disable_apparmor = true

[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "{CNI_PROGRAMS}"
  conf_dir = "{folder / "cni"}"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
  Root = "{folder / "runc"}"
  SystemdCgroup = false
"""


def kubelet_config(node: Node, layout: Layout) -> dict[str, object]:
    """Closed: no anonymous caller, every other one checked with the API server."""
    pki = layout.pki
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False}, "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(pki / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(pki / f"{node.name}.crt"), "tlsPrivateKeyFile": str(pki / f"{node.name}.key"),
        "containerRuntimeEndpoint": f"unix://{node.containerd_socket}",
        "cgroupDriver": "cgroupfs", "cgroupRoot": node.cgroup, "cgroupsPerQOS": True, "enforceNodeAllocatable": [],
        "failCgroupV1": False, "failSwapOn": False, "oomScoreAdj": 0,
        "podLogsDir": str(node.folder / "pod-logs"), "clusterDNS": [layout.control.address],
        "clusterDomain": "cluster.local", "resolvConf": str(node.folder / "resolv.conf"),
        "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100, "imageGCLowThresholdPercent": 99,
        "nodeStatusUpdateFrequency": "4s", "maxPods": 250, "serializeImagePulls": False,
        "address": node.address, "healthzBindAddress": "127.0.0.1", "readOnlyPort": 0, "staticPodPath": "",
    }  # fmt: skip
