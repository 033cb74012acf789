"""Who holds a claim on the experiment, in a cluster: and whether that run can still be running."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from components.cluster.base import Cluster, Object
from components.cluster.gangs import gangs_of
from components.cluster.kinds import WORKFLOWS
from components.contracts.cluster_names import RUN_LABEL
from components.errors import ArgosyError
from components.ledger.ledger import Owner, is_gone, this_process
from components.runtime.log import Log

TARGET = "kubernetes"

_CERTIFICATE = Path("/var/run/secrets/kubernetes.io/serviceaccount/ca.crt")


def owner_in_cluster(namespace: str, *, certificate: Path = _CERTIFICATE) -> Owner:
    """This launcher. The cluster's own certificate and the namespace say where its Workflow is to be looked for."""
    try:
        cluster = cluster_place(certificate.read_bytes(), namespace)
    except OSError:
        cluster = ""  # then nobody can tell this run from one of another cluster, and nobody will
    return this_process(target=TARGET).model_copy(update={"cluster": cluster})


def cluster_place(certificate: bytes, namespace: str) -> str:
    """How an `Owner` names the cluster whose authority has that certificate, and the namespace in it."""
    return f"{hashlib.sha256(certificate).hexdigest()[:16]}/{namespace}"


@dataclass(frozen=True)
class RunsHere:
    """Tells whether the run that holds the claim is over: its Workflows have ended or are gone, and so is its gang."""

    cluster: Cluster
    here: Owner
    log: Log

    def is_over(self, run: str, owner: Owner) -> bool:
        """False also when that cannot be told: a run of another cluster, an API server that does not answer."""
        if is_gone(owner):
            return True
        if not owner.cluster or owner.cluster != self.here.cluster:
            return False
        try:
            return not self._lives(run)
        except ArgosyError as error:
            self.log.warning(f"cannot tell whether run {run}, which holds the claim, is over", seen=str(error))
            return False

    def _lives(self, run: str) -> bool:
        own = self.cluster.read(WORKFLOWS, run)  # without a name of its own a run has its Workflow's
        workflows = [*self.cluster.list(WORKFLOWS, labels=f"{RUN_LABEL}={run}").items, *([own] if own else [])]
        return any(not has_ended(workflow) for workflow in workflows) or bool(gangs_of(self.cluster, run))


def has_ended(workflow: Object) -> bool:
    """Whether none of its pods will ever run again."""
    status = workflow.get("status") or {}
    return bool(status.get("finishedAt")) and status.get("phase") in ("Succeeded", "Failed", "Error")
