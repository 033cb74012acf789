"""A second Argo controller in Strict mode, for those Workflows of one place that ask for it."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import yaml

from infra.devcluster.control import EXECUTOR_IMAGE
from infra.devcluster.layout import BIN
from infra.devcluster.running import running_layout
from tests.cluster.place import Place

CONFIG = "strict-controller"


@contextmanager
def strict_argo(place: Place) -> Iterator[str]:
    """Its instance id. It has the identity of the development cluster's controller, and this place's namespace."""
    instance = place.namespace
    configuration = {
        "instanceID": instance,
        "workflowRestrictions": {"templateReferencing": "Strict"},
        "metricsConfig": {"enabled": False},
        "telemetryConfig": {"enabled": False},
    }
    place.apply({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CONFIG},
        "data": {"config": yaml.safe_dump(configuration)},
    })  # fmt: skip
    kubeconfig = running_layout().pki / "argo-controller.kubeconfig"
    with (place.folder / "strict-argo.log").open("wb") as log:
        process = subprocess.Popen(
            [
                "setpriv", "--pdeathsig", "KILL",  # it shall not outlive tests that are killed
                str(BIN / "argo" / "workflow-controller"), f"--kubeconfig={kubeconfig}", "--namespaced",
                f"--namespace={place.namespace}", f"--managed-namespace={place.namespace}", f"--configmap={CONFIG}",
                f"--executor-image={EXECUTOR_IMAGE}", "--executor-image-pull-policy=IfNotPresent",
            ],
            env={**os.environ, "DEFAULT_REQUEUE_TIME": "1s", "LEADER_ELECTION_DISABLE": "true"},
            stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            yield instance
        finally:
            process.send_signal(signal.SIGKILL)  # it outlives SIGTERM
            process.wait()
