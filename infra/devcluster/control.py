"""The control plane's components: what each is started with and when it is ready."""

import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path

import yaml

from infra.devcluster.build import ARGO
from infra.devcluster.commands import write
from infra.devcluster.layout import (
    API_PORT,
    ARGO_NAMESPACE,
    ARGO_PORT,
    BIN,
    DNS_PORT,
    JOBSET_WEBHOOK_PORT,
    S3_PORT,
    SERVICES,
    Layout,
)  # fmt: skip
from infra.devcluster.process import Component

EXECUTOR_IMAGE = f"localhost/argosy-argoexec:{ARGO}"
S3_KEY, S3_SECRET = "argosydev", "argosydev-secret"


def etcd(layout: Layout) -> Component:
    """Without fsync: quick, and what a power cut may cost is a cluster for trials."""
    return Component(
        "etcd", layout.control,
        (
            str(BIN / "kube" / "server"), "--name=devcluster", "--unsafe-no-fsync",
            f"--data-dir={layout.control.folder / 'etcd'}",
            "--listen-client-urls=http://127.0.0.1:2379", "--advertise-client-urls=http://127.0.0.1:2379",
            "--listen-peer-urls=http://127.0.0.1:2380", "--initial-advertise-peer-urls=http://127.0.0.1:2380",
            "--initial-cluster=devcluster=http://127.0.0.1:2380", "--log-level=warn",
        ),
    )  # fmt: skip


_AUDIT_POLICY = Path(__file__).parent / "audit-policy.yaml"


def api_server(layout: Layout) -> Component:
    """It notes who of the cluster's accounts asks what: benchmarks count their requests."""
    pki = layout.pki
    return Component(
        "apiserver", layout.control,
        (
            str(BIN / "kube" / "kube-apiserver"), f"--advertise-address={layout.control.address}",
            f"--secure-port={API_PORT}", "--etcd-servers=http://127.0.0.1:2379",
            f"--service-cluster-ip-range={SERVICES}", f"--client-ca-file={pki / 'ca.crt'}",
            f"--tls-cert-file={pki / 'apiserver.crt'}", f"--tls-private-key-file={pki / 'apiserver.key'}",
            f"--kubelet-certificate-authority={pki / 'ca.crt'}",
            f"--kubelet-client-certificate={pki / 'apiserver-to-kubelet.crt'}",
            f"--kubelet-client-key={pki / 'apiserver-to-kubelet.key'}",
            "--kubelet-preferred-address-types=InternalIP",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            f"--service-account-key-file={pki / 'tokens.pub'}",
            f"--service-account-signing-key-file={pki / 'tokens.key'}",
            "--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--anonymous-auth=false",
            "--profiling=false", "--event-ttl=6h", f"--cert-dir={layout.control.folder}",
            f"--audit-policy-file={_AUDIT_POLICY}", f"--audit-log-path={layout.audit_log}", "--audit-log-maxsize=50",
            "--audit-log-maxbackup=1",
        ),
        files=(_AUDIT_POLICY,),
        missing=answers(layout, f"{layout.api_url}/readyz"),
    )  # fmt: skip


def controller_manager(layout: Layout) -> Component:
    """A node is taken for lost after 15 s, not 50, so that trials of it are short."""
    pki = layout.pki
    config = pki / "kube-controller-manager.kubeconfig"
    return Component(
        "kube-controller-manager", layout.control,
        (
            str(BIN / "kube" / "kube-controller-manager"), f"--kubeconfig={config}", "--leader-elect=false",
            f"--service-account-private-key-file={pki / 'tokens.key'}", f"--root-ca-file={pki / 'ca.crt'}",
            "--use-service-account-credentials", "--node-monitor-grace-period=15s", "--bind-address=127.0.0.1",
            "--authentication-skip-lookup", "--profiling=false",
        ),
        files=(config,),
    )  # fmt: skip


def scheduler(layout: Layout) -> Component:
    config = layout.pki / "kube-scheduler.kubeconfig"
    return Component(
        "kube-scheduler", layout.control,
        (
            str(BIN / "kube" / "kube-scheduler"), f"--kubeconfig={config}", "--leader-elect=false",
            "--bind-address=127.0.0.1", "--profiling=false",
        ),
        files=(config,),
    )  # fmt: skip


def coredns(layout: Layout) -> Component:
    """Kubernetes' own zone and nothing else: pods cannot look up the outside world."""
    config = layout.control.folder / "Corefile"
    write(
        config,
        f""".:{DNS_PORT} {{
    bind {layout.control.address}
    errors
    kubernetes cluster.local in-addr.arpa ip6.arpa {{
        kubeconfig {layout.pki / "coredns.kubeconfig"}
        pods insecure
        ttl 30
    }}
    cache 30 {{
        disable success cluster.local
        disable denial cluster.local
    }}
}}
""",
    )
    return Component(
        "coredns", layout.control, (str(BIN / "coredns" / "coredns"), "-conf", str(config)), files=(config,),
        missing=listens(layout.control.address, DNS_PORT),
    )  # fmt: skip


def s3(layout: Layout) -> Component:
    objects = layout.control.folder / "s3"
    objects.mkdir(exist_ok=True)
    return Component(
        "s3", layout.control,
        (
            str(BIN / "s3" / "versitygw"), "--port", f"{layout.control.address}:{S3_PORT}", "--quiet",
            "posix", str(objects),
        ),
        environment={"ROOT_ACCESS_KEY": S3_KEY, "ROOT_SECRET_KEY": S3_SECRET},
        missing=listens(layout.control.address, S3_PORT),
    )  # fmt: skip


def argo_controller(layout: Layout) -> Component:
    """With a requeue time of 1 s: 10 s a hop of the DAG by default."""
    config = layout.pki / "argo-controller.kubeconfig"
    return Component(
        "argo-controller", layout.control,
        (
            str(BIN / "argo" / "workflow-controller"), f"--kubeconfig={config}", f"--executor-image={EXECUTOR_IMAGE}",
            "--executor-image-pull-policy=IfNotPresent",
        ),
        environment={
            "DEFAULT_REQUEUE_TIME": "1s", "LEADER_ELECTION_DISABLE": "true",
            "ARGO_PROGRESS_PATCH_TICK_DURATION": "10s",  # what stages tell of their progress: a minute otherwise
        }, files=(config,),
        missing=answers(layout, f"http://{layout.control.address}:6060/healthz"),
        largest_file=1024**3,  # one whose watch of its settings was refused logs 60 MB/s for ever
    )  # fmt: skip


def argo_server(layout: Layout) -> Component:
    config = layout.pki / "argo-server.kubeconfig"
    return Component(
        "argo-server", layout.control,
        (
            str(BIN / "argo" / "argo"), "server", f"--kubeconfig={config}", f"--namespace={ARGO_NAMESPACE}",
            "--auth-mode=client", "--secure", "--tls-certificate-secret-name=argo-server-tls", f"--port={ARGO_PORT}",
        ),
        environment={"KUBECONFIG": str(config)},  # where it learns the API's address for each client's own token
        files=(config, layout.pki / "argo-server-tls.crt"),
        missing=answers(layout, f"https://{layout.argo_server}/"),
    )  # fmt: skip


def jobset(layout: Layout) -> Component:
    folder = layout.control.folder / "jobset"
    folder.mkdir(exist_ok=True)
    return webhook_controller(
        "jobset", layout, folder, webhook_port=JOBSET_WEBHOOK_PORT, metrics_port=8443, health_port=8081,
        config={"apiVersion": "config.jobset.x-k8s.io/v1alpha1", "kind": "Configuration"},
    )  # fmt: skip


def webhook_controller(
    name: str, layout: Layout, folder: Path, *, webhook_port: int, metrics_port: int, health_port: int,
    config: Mapping[str, object], options: tuple[str, ...] = (),
) -> Component:  # fmt: skip
    """A controller that serves webhooks with the certificate `<name>-tls`, as JobSet and Kueue are configured alike.

    `config`: what its configuration says besides; `options`: more words of its command line.
    """
    for end in ("crt", "key"):
        if not (folder / f"tls.{end}").is_symlink():
            (folder / f"tls.{end}").symlink_to(layout.pki / f"{name}-tls.{end}")
    health, file, kubeconfig = (
        f"{layout.control.address}:{health_port}", folder / "config.yaml", layout.pki / f"{name}.kubeconfig",
    )  # fmt: skip
    write(file, yaml.safe_dump({
        **config,
        "leaderElection": {"leaderElect": False}, "internalCertManagement": {"enable": False},
        "webhook": {"port": webhook_port, "certDir": str(folder)},
        "metrics": {"bindAddress": f"127.0.0.1:{metrics_port}"}, "health": {"healthProbeBindAddress": health},
    }))  # fmt: skip
    return Component(
        name, layout.control, (str(BIN / name / name), f"--config={file}", f"--kubeconfig={kubeconfig}", *options),
        files=(file, kubeconfig), missing=answers(layout, f"http://{health}/readyz"),
    )  # fmt: skip


def first(layout: Layout) -> tuple[Component, ...]:
    """What the API needs, in order of start."""
    return etcd(layout), api_server(layout)


def second(layout: Layout) -> tuple[Component, ...]:
    """What needs only the API's built-in roles."""
    return controller_manager(layout), scheduler(layout), s3(layout)


def third(layout: Layout) -> tuple[Component, ...]:
    """What needs objects that `manifests` applies."""
    return coredns(layout), argo_controller(layout), argo_server(layout), jobset(layout)


def answers(layout: Layout, url: str) -> Callable[[], str]:
    """Ready when that URL says 200 to the administrator."""

    def missing() -> str:
        try:
            with urllib.request.urlopen(url, timeout=3, context=_trust(layout.pki)):
                return ""
        except (urllib.error.URLError, OSError) as error:
            return f"{url}: {error}"

    return missing


def listens(address: str, port: int) -> Callable[[], str]:
    """Ready when something there takes a connection."""

    def missing() -> str:
        try:
            with socket.create_connection((address, port), timeout=2):
                return ""
        except OSError as error:
            return f"{address}:{port}: {error}"

    return missing


def _trust(pki: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
    context.load_cert_chain(pki / "admin.crt", pki / "admin.key")
    return context
