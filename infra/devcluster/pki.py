"""Certificates: one authority of the cluster's own, and from it an identity for every component.

Controllers get client certificates that name their upstream service account: exactly the upstream Roles apply.
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from infra.devcluster.commands import run, write
from infra.devcluster.layout import ARGO_NAMESPACE, JOBSET_NAMESPACE, SERVICES, Layout

_DAYS = "3650"


@dataclass(frozen=True)
class Identity:
    """What a certificate says: who (name, groups), and for a server the addresses it answers at."""

    file: str
    name: str
    groups: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    client: bool = True

    @property
    def subject(self) -> str:
        return "".join(f"/O={group}" for group in self.groups) + f"/CN={self.name}"

    @property
    def extensions(self) -> tuple[str, ...]:
        """As openssl's -addext takes them."""
        usage = ",".join([*(["clientAuth"] if self.client else []), *(["serverAuth"] if self.addresses else [])])
        alternatives = ",".join(f"{'IP' if a.replace('.', '').isdigit() else 'DNS'}:{a}" for a in self.addresses)
        return (
            "basicConstraints=critical,CA:FALSE", "keyUsage=critical,digitalSignature", f"extendedKeyUsage={usage}",
            *([f"subjectAltName={alternatives}"] if alternatives else []),
        )  # fmt: skip


def service_account(file: str, namespace: str, name: str) -> Identity:
    """A certificate that the API server takes for that service account."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    return Identity(file, f"system:serviceaccount:{namespace}:{name}", groups)


def identities(layout: Layout) -> tuple[Identity, ...]:
    control, cluster = layout.control.address, "svc.cluster.local"
    api_names = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", f"kubernetes.default.{cluster}")
    return (
        Identity(
            "apiserver", "kube-apiserver", addresses=(control, str(SERVICES[1]), *api_names), client=False,
        ),
        Identity("apiserver-to-kubelet", "kube-apiserver-kubelet-client"),
        Identity("admin", "admin", ("system:masters",)),
        Identity("kube-controller-manager", "system:kube-controller-manager"),
        Identity("kube-scheduler", "system:kube-scheduler"),
        Identity("kube-proxy", "system:kube-proxy"),
        Identity("coredns", "system:coredns"),
        service_account("argo-controller", ARGO_NAMESPACE, "argo"),
        service_account("argo-server", ARGO_NAMESPACE, "argo-server"),
        Identity("argo-server-tls", "argo-server", addresses=(control, "argo-server"), client=False),
        service_account("jobset", JOBSET_NAMESPACE, "jobset-controller-manager"),
        Identity("jobset-tls", "jobset-webhook", addresses=(control,), client=False),
        *(
            Identity(node.name, f"system:node:{node.name}", ("system:nodes",), (node.address, node.name))
            for node in layout.nodes
        ),
    )  # fmt: skip


def make(layout: Layout) -> None:
    """Authority, certificates, the key that signs service account tokens, a kubeconfig a client; what exists stays."""
    folder = layout.pki
    folder.mkdir(parents=True, exist_ok=True)
    os.chmod(folder, 0o700)
    config = folder / "openssl.cnf"
    config.write_text("[req]\ndistinguished_name = dn\n[dn]\n")
    if not (folder / "ca.crt").exists():
        _issue(
            folder, "ca", "/CN=argosy-devcluster", ("basicConstraints=critical,CA:TRUE", "keyUsage=keyCertSign,cRLSign")
        )
    if not (folder / "tokens.key").exists():
        run(["openssl", "genrsa", "-out", folder / "tokens.new", "2048"])
        run(["openssl", "rsa", "-in", folder / "tokens.new", "-pubout", "-out", folder / "tokens.pub"])
        (folder / "tokens.new").rename(folder / "tokens.key")
    issue(layout, identities(layout))


def issue(layout: Layout, wanted: Iterable[Identity]) -> None:
    """Their certificates, and kubeconfigs of clients; what exists stays."""
    folder = layout.pki
    for identity in wanted:
        if not (folder / f"{identity.file}.crt").exists():
            _issue(folder, identity.file, identity.subject, identity.extensions, signed=True)
        if identity.client:
            config = folder / f"{identity.file}.kubeconfig"
            write(config, yaml.safe_dump(kubeconfig(layout, identity), sort_keys=False))
            os.chmod(config, 0o600)


def kubeconfig(layout: Layout, identity: Identity) -> dict[str, object]:
    """By file names, not contents: components read them as root. Their namespace is that of their service account."""
    words = identity.name.split(":")
    context = {"cluster": "devcluster", "user": identity.file}
    if words[1:2] == ["serviceaccount"]:
        context["namespace"] = words[2]
    return {
        "apiVersion": "v1", "kind": "Config", "current-context": "devcluster",
        "clusters": [{
            "name": "devcluster",
            "cluster": {"server": layout.api_url, "certificate-authority": str(layout.pki / "ca.crt")},
        }],
        "users": [{
            "name": identity.file,
            "user": {
                "client-certificate": str(layout.pki / f"{identity.file}.crt"),
                "client-key": str(layout.pki / f"{identity.file}.key"),
            },
        }],
        "contexts": [{"name": "devcluster", "context": context}],
    }  # fmt: skip


def _issue(folder: Path, file: str, subject: str, extensions: Sequence[str], *, signed: bool = False) -> None:
    authority: list[str | Path] = ["-CA", folder / "ca.crt", "-CAkey", folder / "ca.key"] if signed else []
    run([
        "openssl", "req", "-x509", "-config", folder / "openssl.cnf", "-newkey", "ec", "-pkeyopt",
        "ec_paramgen_curve:prime256v1", "-nodes", "-days", _DAYS, "-subj", subject,
        *(word for extension in extensions for word in ("-addext", extension)), *authority,
        "-keyout", folder / f"{file}.key", "-out", folder / f"{file}.new",
    ])  # fmt: skip
    (folder / f"{file}.new").rename(folder / f"{file}.crt")
