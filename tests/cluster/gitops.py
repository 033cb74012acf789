"""A repository, its render and its webhook, as a platform team has them, for tests of what reaches a cluster by Git."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from components.cluster.kinds import WORKFLOWS
from infra.gitops.webhook import endpoint, post
from tests.cluster.harness import OVER, wait_until
from tests.cluster.place import ROOT, Place

Object = dict[str, Any]
SECRET = "between the repository and the server"


class Repository:
    """A bare repository, a checkout in which people work, and what a deployer applies of it."""

    def __init__(self, place: Place, value: Mapping[str, Any]) -> None:
        self.place, self.value = place, dict(value)
        self.experiment = str(value["experiment"])
        self.bare, self.work = (place.folder / f"{self.experiment}.{end}" for end in ("git", "work"))
        git(place.folder, "init", "--quiet", "--bare", "--initial-branch=main", str(self.bare))
        git(place.folder, "clone", "--quiet", str(self.bare), str(self.work))
        self.render = self.work / "deploy"

    def compile(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """`compile` of the description in the checkout."""
        (self.work / "run.yaml").write_text(yaml.safe_dump(self.value, sort_keys=False))
        return subprocess.run(
            [sys.executable, str(ROOT / "pipelines" / "train.py"), "compile", "-c", "run.yaml", *arguments],
            cwd=self.work, capture_output=True, text=True, check=False, timeout=180,
            env={**os.environ, "ARGOSY_HOME": str(self.place.folder / "home")},
        )  # fmt: skip

    def commit(self, kind: str = "all") -> str:
        """Render, commit, push; the commit's SHA."""
        done = self.compile("--as", kind, "--out", "deploy")
        assert done.returncode == 0, done.stderr
        git(self.work, "add", "--all")
        git(self.work, "commit", "--quiet", "--message=A render", "--allow-empty")
        git(self.work, "push", "--quiet", "origin", "HEAD:main")
        return git(self.work, "rev-parse", "HEAD")

    def deploy(self, *, by_force: bool = False) -> None:
        """What Argo CD does: the committed render of the bare repository's main, applied as it is. `by_force` takes
        back what others wrote, as a sync that heals itself does.
        """
        folder = self.place.folder / f"{self.experiment}.deployed"
        if not folder.exists():
            git(self.place.folder, "clone", "--quiet", str(self.bare), str(folder))
        git(folder, "pull", "--quiet", "origin", "main")
        force = ["--force-conflicts"] if by_force else []
        self.place.kubectl("apply", "--server-side", *force, "--kustomize", str(folder / "deploy"))

    def trust_webhook(self) -> None:
        """Tell the Argo Server which secret the repository signs with, and whose rights its posts have."""
        client = f"type: github\nsecret: {json.dumps(SECRET)}\n"
        self.place.apply({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "argo-workflows-webhook-clients"},
            "stringData": {f"{self.experiment}-webhook": client},
        })  # fmt: skip
        if "ARGO_SERVER" not in os.environ or "ARGO_SERVER_CA" not in os.environ:
            return
        # Until its account has a token the server refuses everybody. GitHub sends a ping, too, when a webhook is made.
        wait_until(lambda: self.post({"zen": "Speak like a human."}) == 200, what="the server to know the webhook")

    def post(self, payload: Any, *, secret: str | None = SECRET) -> int:
        """What GitHub sends for a push; the answer's status."""
        url = endpoint(
            f"https://{os.environ['ARGO_SERVER']}", namespace=self.place.namespace, experiment=self.experiment
        )
        return post(url, json.dumps(payload).encode(), secret=secret, ca_file=os.environ["ARGO_SERVER_CA"])

    def workflows(self) -> list[Object]:
        """All runs of the experiment, oldest first."""
        items = self.place.cluster.list(WORKFLOWS).items
        ours = [item for item in items if self._is_ours(item)]
        return sorted(ours, key=lambda item: str(item["metadata"]["creationTimestamp"]))

    def _is_ours(self, item: Object) -> bool:
        return bool((item["spec"].get("workflowTemplateRef") or {}).get("name") == self.experiment)


def push(sha: Any, branch: str = "main") -> Object:
    """The part of a push event's payload that matters."""
    return {"ref": f"refs/heads/{branch}", "after": sha, "repository": {"full_name": "team/models"}}


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "safe.directory=*"]
    done = subprocess.run(["git", *who, *words], cwd=folder, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, f"git {' '.join(words)}: {done.stderr}"
    return done.stdout.strip()


def workflow_over(place: Place, name: str) -> Object:
    """The Workflow, once Argo is done with it."""

    def look() -> Object | None:
        found = place.cluster.read(WORKFLOWS, name)
        return found if found and (found.get("status") or {}).get("phase") in OVER else None

    return wait_until(look, what=f"Workflow {name} to end", timeout=1100)


def stages_of(workflow: Object) -> dict[str, str]:
    """Phase by task."""
    nodes = (workflow.get("status") or {}).get("nodes") or {}
    return {str(node["displayName"]): str(node["phase"]) for node in nodes.values()}
