"""Where everything of the development cluster lives: names, addresses, folders. A function of the number of nodes."""

import ipaddress
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).parent.parent.parent
PYTHON = CHECKOUT / ".venv" / "bin" / "python"
BUILD = CHECKOUT / "build" / "devcluster"
"""Programs, images and what tests read. Nothing is ever mounted below it: `make clean` can never reach further."""
BIN = BUILD / "bin"
KUBECTL = BIN / "kube" / "kubectl"

STATE = Path("/var/lib/argosy-devcluster")
"""One cluster a host, whichever checkout started it: a later `up` or `down` finds what an earlier one left."""
LOGS = STATE / "logs"

NAME = "argosy-devcluster"
"""Of the control group, the CNI network, the PKI."""

BRIDGE = "argosy0"
SUBNET = ipaddress.ip_network("10.213.0.0/24")
SERVICES = ipaddress.ip_network("10.215.0.0/16")
MAX_NODES = 16

NAMESPACE = "argosy"
"""Where workflows of tests and trials run, unless they bring their own."""
ARGO_NAMESPACE = "argo"
JOBSET_NAMESPACE = "jobset-system"

API_PORT, DNS_PORT, ARGO_PORT, S3_PORT, JOBSET_WEBHOOK_PORT = 6443, 53, 2746, 7070, 9443


@dataclass(frozen=True)
class Machine:
    """A network namespace that plays a machine: the control plane's, or a node's."""

    name: str
    address: str

    @property
    def netns(self) -> str:
        return f"argosy-{self.name}"

    @property
    def netns_path(self) -> str:
        return f"/run/netns/{self.netns}"

    @property
    def link(self) -> str:
        """The host's end of its cable; interface names have fifteen characters at most."""
        return f"ag-{self.name}"

    @property
    def folder(self) -> Path:
        return STATE / self.name

    @property
    def cgroup(self) -> str:
        return f"/{NAME}/{self.name}"


@dataclass(frozen=True)
class Node(Machine):
    """A machine that runs pods."""

    pods: str
    """The range of its pods' addresses."""

    @property
    def containerd_socket(self) -> Path:
        return self.folder / "containerd" / "containerd.sock"


@dataclass(frozen=True)
class Layout:
    """The cluster of `num_nodes` nodes."""

    num_nodes: int

    @property
    def host_address(self) -> str:
        return str(SUBNET[1])

    @property
    def control(self) -> Machine:
        return Machine("control", str(SUBNET[2]))

    @property
    def nodes(self) -> tuple[Node, ...]:
        return tuple(Node(f"node-{n}", str(SUBNET[10 + n]), f"10.214.{n}.0/24") for n in range(self.num_nodes))

    @property
    def machines(self) -> tuple[Machine, ...]:
        return (self.control, *self.nodes)

    @property
    def pki(self) -> Path:
        return STATE / "pki"

    @property
    def audit_log(self) -> Path:
        """JSON lines: the requests of service accounts."""
        return LOGS / "audit.jsonl"

    @property
    def api_url(self) -> str:
        return f"https://{self.control.address}:{API_PORT}"

    @property
    def s3_url(self) -> str:
        return f"http://{self.control.address}:{S3_PORT}"

    @property
    def argo_server(self) -> str:
        return f"{self.control.address}:{ARGO_PORT}"
