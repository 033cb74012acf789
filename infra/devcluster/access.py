"""What a client needs: kubeconfig, the Argo Server's address and token, S3's, the images; in one file to source."""

import base64
import os
import shlex
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

import yaml

from components.errors import EnvironmentUnfit
from components.storage.location import StoreOptions
from components.storage.s3_client import make_client
from infra.devcluster.control import S3_KEY, S3_SECRET
from infra.devcluster.images import Image
from infra.devcluster.layout import BIN, BUILD, KUBECTL, NAMESPACE, Layout
from infra.devcluster.manifests import kubectl

BUCKET = "argosy"


def write_access(layout: Layout, images: Iterable[Image]) -> None:
    """`build/devcluster/{kubeconfig,ca.crt,env}`, readable by their owner only, and a bucket."""
    _private(BUILD / "kubeconfig", yaml.safe_dump(_kubeconfig(layout), sort_keys=False))
    _private(BUILD / "ca.crt", (layout.pki / "ca.crt").read_text())
    _private(BUILD / "env", shell(environment(layout, images, _token(layout))))
    _make_bucket(layout)


def environment(layout: Layout, images: Iterable[Image], token: str) -> dict[str, str]:
    """Variables by name."""
    by_name = {image.name: image.reference for image in images}
    return {
        "KUBECONFIG": str(BUILD / "kubeconfig"), "KUBECTL": str(KUBECTL),
        "ARGO": str(BIN / "argo" / "argo"),
        "ARGO_SERVER": layout.argo_server, "ARGO_SECURE": "true", "ARGO_TOKEN": f"Bearer {token}",
        "ARGO_SERVER_CA": str(BUILD / "ca.crt"), "AWS_ENDPOINT_URL_S3": layout.s3_url, "AWS_ACCESS_KEY_ID": S3_KEY,
        "AWS_SECRET_ACCESS_KEY": S3_SECRET, "AWS_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true",
        "DEVCLUSTER_BUCKET": BUCKET, "DEVCLUSTER_NAMESPACE": NAMESPACE,
        "DEVCLUSTER_NODES": ",".join(node.name for node in layout.nodes),
        "DEVCLUSTER_AUDIT_LOG": str(layout.audit_log),
        "DEVCLUSTER_PLATFORM_IMAGE": by_name["argosy-platform"], "DEVCLUSTER_TRAIN_IMAGE": by_name["argosy-train"],
    }  # fmt: skip


def shell(variables: Mapping[str, str]) -> str:
    """For `source`, and for anything that reads `export NAME=value` lines."""
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())


def _kubeconfig(layout: Layout) -> dict[str, object]:
    """Self-contained, so that it can be copied."""

    def data(name: str) -> str:
        return base64.b64encode((layout.pki / name).read_bytes()).decode()

    return {
        "apiVersion": "v1", "kind": "Config", "current-context": "devcluster",
        "clusters": [{
            "name": "devcluster", "cluster": {"server": layout.api_url, "certificate-authority-data": data("ca.crt")},
        }],
        "users": [{
            "name": "admin",
            "user": {"client-certificate-data": data("admin.crt"), "client-key-data": data("admin.key")},
        }],
        "contexts": [{
            "name": "devcluster", "context": {"cluster": "devcluster", "user": "admin", "namespace": NAMESPACE},
        }],
    }  # fmt: skip


def _token(layout: Layout) -> str:
    """Of the account `tester`; a controller fills the secret in."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        words = ("get", "secret", "tester-token", f"--namespace={NAMESPACE}", "--output=jsonpath={.data.token}")
        if encoded := kubectl(layout, *words):
            return base64.b64decode(encoded).decode()
        time.sleep(0.2)
    raise EnvironmentUnfit("NoToken", "the secret tester-token stays empty", "see the log of kube-controller-manager")


def _make_bucket(layout: Layout) -> None:
    given = {"AWS_ACCESS_KEY_ID": S3_KEY, "AWS_SECRET_ACCESS_KEY": S3_SECRET}
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        client = make_client(StoreOptions(endpoint=layout.s3_url, region="us-east-1"), uri=f"s3://{BUCKET}")
        if BUCKET not in {bucket["Name"] for bucket in client.list_buckets()["Buckets"]}:
            client.create_bucket(Bucket=BUCKET)
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def _private(path: Path, text: str) -> None:
    temporary = path.with_name(f"{path.name}.new")
    temporary.unlink(missing_ok=True)
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    temporary.rename(path)
