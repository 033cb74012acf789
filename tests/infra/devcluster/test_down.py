"""What may be unmounted, and in which order."""

from pathlib import Path

from infra.devcluster.down import mounts_below, strays
from infra.devcluster.layout import Layout

STATE = Path("/var/lib/argosy-devcluster")


def _line(point: str) -> str:
    return f"36 35 98:0 / {point} rw,noatime shared:1 - ext4 /dev/root rw"


def test_inner_mounts_go_first() -> None:
    volume = "/var/lib/argosy-devcluster/node-0/kubelet/pods/a/volumes/kubernetes.io~projected/token"
    points = ["/var/lib/argosy-devcluster/node-0", volume, "/var/lib/argosy-devcluster/node-0/kubelet"]
    assert mounts_below(STATE, "\n".join(map(_line, points))) == [
        volume,
        "/var/lib/argosy-devcluster/node-0/kubelet",
        "/var/lib/argosy-devcluster/node-0",
    ]


def test_mounts_of_others_are_left_alone() -> None:
    points = ["/", "/proc", "/var/lib", "/var/lib/argosy-devcluster-2/x", "/var/lib/argosy-devclusters"]
    assert mounts_below(STATE, "\n".join(map(_line, points))) == []


def test_a_mount_point_with_a_space_is_named_as_it_is() -> None:
    point = r"/var/lib/argosy-devcluster/a\040b"
    assert mounts_below(STATE, _line(point)) == ["/var/lib/argosy-devcluster/a b"]


def test_of_shared_folders_only_files_about_our_containers_go() -> None:
    ours, other = "a" * 64, "b" * 64
    results = [
        Path(f"/var/lib/cni/results/cni-loopback-{ours}-lo"),
        Path(f"/var/lib/cni/results/cni-loopback-{other}-lo"),
        Path(f"/var/lib/cni/results/argosy-devcluster-{other}-eth0"),
    ]
    assert strays(Layout(1).nodes[0], [ours], results) == [
        Path("/run/containerd/s/44c90c9f9e0a226bccfacb6dfaa4f03633eb205349b19faa70d5298d2022afa8"),
        results[0],
        results[2],
    ]
