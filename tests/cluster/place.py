"""A namespace of one's own on a real cluster, with Argosy installed in it as shipped, and all of it gone afterwards.

Where: `KUBECONFIG`, and the variables that README.md lists; on the development cluster its `env` file says all.
"""

import json
import os
import secrets
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import yaml

from components.cluster.api import KubernetesCluster
from components.cluster.kinds import DEPLOYMENTS, NAMESPACES
from components.storage.base import ObjectStore, open_store

ROOT = Path(__file__).parent.parent.parent
HAS_SERVER = bool(os.environ.get("ARGO_SERVER"))
"""Whether an Argo Server is named."""
SECRET = "s3-credentials"
SUBMITTER = "test-submitter"
"""An account with just the Role that access.yaml has for people."""
_CREDENTIALS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
_WIDE = {"ClusterRole": ("argosy-nodes",), "ClusterRoleBinding": ("argosy-launcher-nodes", "argosy-janitor-nodes")}
"""What is not of one namespace; each place has its own, so that several can stand side by side."""
_REFERS = {"ClusterRoleBinding": {"/roleRef/name": "argosy-nodes"}}


class Witness(Protocol):
    def evidence(self) -> str: ...


@dataclass
class Place:
    """A namespace with service accounts, Roles and the janitor, and a folder of the storage."""

    namespace: str
    folder: Path
    """On this machine, for kubeconfig files and runs' homes."""
    is_devcluster: bool = field(default_factory=lambda: "DEVCLUSTER_NAMESPACE" in os.environ)
    runs: Sequence[Witness] = ()
    """What was run here."""

    @property
    def platform_image(self) -> str:
        return os.environ.get("ARGOSY_TEST_PLATFORM_IMAGE") or os.environ["DEVCLUSTER_PLATFORM_IMAGE"]

    @property
    def image(self) -> str:
        """Of the ranks: any with python3."""
        return os.environ.get("ARGOSY_TEST_IMAGE") or os.environ["DEVCLUSTER_TRAIN_IMAGE"]

    @property
    def storage(self) -> str:
        root = os.environ.get("ARGOSY_TEST_STORAGE") or f"s3://{os.environ['DEVCLUSTER_BUCKET']}/tests"
        return f"{root.rstrip('/')}/{self.namespace}"

    @property
    def storage_options(self) -> dict[str, str]:
        """As a description says it."""
        said = {"endpoint": os.environ.get("AWS_ENDPOINT_URL_S3"), "region": os.environ.get("AWS_REGION")}
        return {**{key: value for key, value in said.items() if value}, "credentials_secret": SECRET}

    @cached_property
    def store(self) -> ObjectStore:
        return open_store(self.storage)

    @cached_property
    def cluster(self) -> KubernetesCluster:
        """With the rights of KUBECONFIG."""
        return KubernetesCluster.connect(namespace=self.namespace)

    @property
    def submitter(self) -> Path:
        """A kubeconfig of the account that submits."""
        return self.folder / "submitter.kubeconfig"

    def kubectl(self, *words: str, stdin: str | None = None, may_fail: bool = False) -> str:
        """Its output. With the rights of KUBECONFIG, in this namespace."""
        argv = [os.environ.get("KUBECTL", "kubectl"), f"--namespace={self.namespace}", *words]
        done = subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False, timeout=180)
        assert may_fail or done.returncode == 0, f"kubectl {' '.join(words)}: {done.stderr[-3000:]}"
        return done.stdout if done.returncode == 0 else f"{done.stdout}{done.stderr}"

    def install(self) -> None:
        """Namespace, credentials, access.yaml and janitor as shipped, an account that submits."""
        if self.is_devcluster:
            command = [sys.executable, "-m", "infra.devcluster", "namespace", self.namespace]
            subprocess.run(command, cwd=ROOT, check=True, timeout=180)
        else:
            self.kubectl("create", "namespace", self.namespace)
            self.apply({
                "apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET},
                "stringData": {name: os.environ[name] for name in _CREDENTIALS},
            })  # fmt: skip
        overlay = self.folder / "overlay"
        overlay.mkdir()
        (overlay / "kustomization.yaml").write_text(yaml.safe_dump(self._kustomization(overlay), sort_keys=False))
        self.kubectl("apply", "--kustomize", str(overlay))
        self.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": SUBMITTER}})
        self.kubectl(
            "create", "rolebinding", SUBMITTER, "--role=argosy-submitter",
            f"--serviceaccount={self.namespace}:{SUBMITTER}",
        )  # fmt: skip
        self.submitter.write_text(json.dumps(self._kubeconfig_of(SUBMITTER)))
        self._wait_for_janitor()

    def remove(self) -> None:
        """Ask for the end of everything, in the cluster and in the storage; `wait_until_gone` sees it happen."""
        self.kubectl("delete", "workflows.argoproj.io", "--all", "--wait=false", may_fail=True)
        self.kubectl("delete", "namespace", self.namespace, "--wait=false", may_fail=True)
        for kind, names in _WIDE.items():
            for name in names:
                self.kubectl("delete", kind.lower(), f"{name}-{self.namespace}", "--ignore-not-found", may_fail=True)
        root, _, name = self.storage.rpartition("/")
        around = open_store(root)
        for item in list(around.list(name)):
            around.delete(item.key)

    def wait_until_gone(self) -> None:
        """Nothing is left. What will not go is an error."""
        deadline = time.monotonic() + 300
        while self.cluster.read(NAMESPACES, self.namespace) is not None:
            assert time.monotonic() < deadline, f"namespace {self.namespace} does not go away: {self._what_is_left()}"
            time.sleep(1)
        if self.is_devcluster:
            self.kubectl("delete", "persistentvolume", f"site-packages-{self.namespace}", "--ignore-not-found")

    def apply(self, manifest: Mapping[str, Any]) -> None:
        self.kubectl("apply", "--filename", "-", stdin=json.dumps(manifest))

    def upload(self, name: str, documents: Mapping[str, bytes]) -> str:
        """A corpus in the storage; its uri."""
        for path, content in documents.items():
            self.store.replace(f"corpora/{name}/{path}", content)
        return f"{self.storage}/corpora/{name}/"

    def ask_server(self, path: str) -> Any:
        """What the Argo Server says to the account that submits; its web pages draw just this."""
        request = urllib.request.Request(
            f"https://{os.environ['ARGO_SERVER']}{path}", headers={"Authorization": f"Bearer {self.token}"}
        )
        trusted = ssl.create_default_context(cafile=os.environ.get("ARGO_SERVER_CA"))
        with urllib.request.urlopen(request, context=trusted, timeout=60) as response:
            return json.load(response)

    def evidence(self) -> str:
        """For whoever reads a failed test."""
        words = [
            ("get", "workflows.argoproj.io,jobs,pods", "--output=wide"),
            ("get", "events", "--sort-by=.lastTimestamp", "--field-selector=type!=Normal"),
            ("logs", "deployment/argosy-janitor", "--tail=20"),
        ]
        said = [f"kubectl {' '.join(each)}\n{self.kubectl(*each, may_fail=True)[-6000:]}" for each in words]
        return "\n".join([*said, *(run.evidence() for run in self.runs)])

    def _kustomization(self, overlay: Path) -> dict[str, Any]:
        """As a platform team would write it for a second namespace: only names, the namespace and the image differ."""
        name, _, digest = self.platform_image.partition("@")
        renamed = [
            {
                "target": {"kind": kind, "name": old}, "options": {"allowNameChange": True},
                "patch": json.dumps([
                    {"op": "replace", "path": path, "value": f"{new}-{self.namespace}"}
                    for path, new in {"/metadata/name": old, **_REFERS.get(kind, {})}.items()
                ]),
            }
            for kind, names in _WIDE.items()
            for old in names
        ]  # fmt: skip
        return {
            "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "namespace": self.namespace,
            "resources": [os.path.relpath((ROOT / "infra" / "kubernetes").resolve(), overlay.resolve())],
            "images": [{"name": "argosy-platform", "newName": name, "digest": digest}],
            "patches": renamed,
        }  # fmt: skip

    @property
    def token(self) -> str:
        """Of the account that submits."""
        return str(json.loads(self.submitter.read_text())["users"][0]["user"]["token"])

    def _kubeconfig_of(self, account: str) -> dict[str, Any]:
        found = json.loads(self.kubectl("config", "view", "--raw", "--minify", "--flatten", "--output=json"))
        token = self.kubectl("create", "token", account, "--duration=3h").strip()
        here = {"cluster": found["clusters"][0]["name"], "user": account, "namespace": self.namespace}
        return {
            "apiVersion": "v1", "kind": "Config", "current-context": "tests", "clusters": found["clusters"],
            "users": [{"name": account, "user": {"token": token}}], "contexts": [{"name": "tests", "context": here}],
        }  # fmt: skip

    def _wait_for_janitor(self) -> None:
        deadline = time.monotonic() + 180
        while True:
            found = self.cluster.read(DEPLOYMENTS, "argosy-janitor")
            if found and found.get("status", {}).get("availableReplicas"):
                return
            assert time.monotonic() < deadline, f"the janitor does not run: {self.kubectl('describe', 'pods')[-3000:]}"
            time.sleep(1)

    def _what_is_left(self) -> str:
        words = "pods,jobs,jobsets.jobset.x-k8s.io,workflows.argoproj.io"
        return self.kubectl("get", words, "--output=wide", may_fail=True)[-3000:]


_removed: list[Place] = []


def wait_for_removed() -> None:
    """Until every place of this process is gone. At the end of all tests, so that none waits for another's end."""
    while _removed:
        _removed.pop().wait_until_gone()


def a_place(name: str, folder: Path) -> Iterator[Place]:
    """For a fixture."""
    prefix = os.environ.get("ARGOSY_TEST_NAMESPACE", "argosy-test")
    place = Place(f"{prefix}-{name}-{secrets.token_hex(2)}"[:50], folder)
    try:
        place.install()
        yield place
    finally:
        if not os.environ.get("ARGOSY_TEST_KEEP"):
            _removed.append(place)
            place.remove()
