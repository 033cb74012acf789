"""`python -m infra.kubernetes.janitor`: the janitor of the namespace it runs in, until SIGTERM."""

import argparse
import signal
import sys
import threading

from components.cluster.api import KubernetesCluster
from components.contracts.units import parse_duration
from components.errors import ArgosyError
from components.runtime.log import Log
from infra.kubernetes.janitor.loop import Janitor
from infra.kubernetes.janitor.rules import Limits


def main() -> int:
    """Exit code; Kubernetes starts it again after any but 0."""
    parser = argparse.ArgumentParser(prog="python -m infra.kubernetes.janitor", allow_abbrev=False)
    parser.add_argument("--namespace", default="", help="default: the pod's own")
    parser.add_argument(
        "--lost-after", type=parse_duration, default=Limits.force_after_seconds,
        help="for stages: how long their node may be silent, for example 2m",
    )  # fmt: skip
    parser.add_argument(
        "--pending-limit", type=parse_duration, default=Limits.pending_seconds,
        help="for stages that do not say so themselves: how long their pod may be Pending",
    )  # fmt: skip
    arguments = parser.parse_args()
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    log = Log({"task": "janitor"})
    try:
        cluster = KubernetesCluster.connect(namespace=arguments.namespace)
        limits = Limits(force_after_seconds=arguments.lost_after, pending_seconds=arguments.pending_limit)
        janitor = Janitor(cluster, limits=limits, log=log)
        try:
            janitor.run(stopped)
        finally:
            janitor.close()
    except ArgosyError as error:
        log.error(str(error), reason=error.reason, exit_code=int(error.exit_code))
        return int(error.exit_code)
    return 0


if __name__ == "__main__":
    sys.exit(main())
