"""Gathers the evidence about a run: its view, and on Kubernetes the objects around it, in a handful of requests."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from components.cluster.base import Forbidden, NotServed
from components.cluster.fields import name_of, parts, text, uid_of
from components.cluster.kinds import EVENTS, JOB_SETS, JOBS, LOCAL_QUEUES, NODES, PODS, WORKLOADS, Kind
from components.contracts.clock import now_text
from components.contracts.cluster_names import RUN_LABEL, WORKFLOW_LABEL
from components.diagnosis.observed import Observed
from components.diagnosis.queue import QUEUE_LABEL
from components.diagnosis.scrub import kept, kept_view, masking, secret_values
from components.errors import ArgosyError, Transient

if TYPE_CHECKING:
    from components.cluster.api import KubernetesCluster
    from components.contracts.run_view import RunView
    from pipelines.cli.cluster_run import ClusterRun
    from pipelines.cli.local_run import LocalRun

Object = dict[str, Any]

_PAGE = 5000
"""Objects a request: one answer of all events beats many that select, and is 4 MB."""
_OWN_VALUES = ("argosy", "kubernetes", "/argosy/home", "/argosy/out", "us-east-1")
"""Of variables that every pod of ours has: no secrets, and in the names of many things."""
_OLDER_KUEUE = tuple(replace(kind, api_version="kueue.x-k8s.io/v1beta1") for kind in (WORKLOADS, LOCAL_QUEUES))


def observe(run: "LocalRun | ClusterRun", *, again: bool = False) -> Observed:
    """Everything that can be known about the run now. What may not be read is named, and left out.

    Raises what the cluster answers where the storage knows nothing of the run either; Transient also where it does,
    with `again`: whoever looks again and again rather waits.
    """
    target = run.target_name
    if target != "kubernetes":
        withheld = {} if target == "local" else {"objects": "the Argo Server shows Workflows only; pods, events and "
                                                            "nodes are seen with --target kubernetes"}  # fmt: skip
        view = run.view()
        mask = masking(secret_values(view.description))
        withheld = {**_unread(view), **withheld}
        return Observed(
            run=run.name, taken_at=now_text(), view=kept_view(view, mask),
            withheld={kind: mask(why) for kind, why in withheld.items()},
        )  # fmt: skip
    from infra.argo.kubernetes import ArgoByKubernetes

    argo = run.argo  # type: ignore[union-attr]  # a run of the target kubernetes is a ClusterRun
    assert isinstance(argo, ArgoByKubernetes)
    return _observe_cluster(run, argo.cluster, again=again)  # type: ignore[arg-type]


def _unread(view: "RunView") -> dict[str, str]:
    return {"run": "; ".join(view.unreadable)} if view.unreadable else {}


def _observe_cluster(run: "ClusterRun", cluster: "KubernetesCluster", *, again: bool) -> Observed:
    withheld: dict[str, str] = {}

    def listed(kind: Kind, labels: str = "") -> list[Object] | None:
        try:
            return list(cluster.list(kind, labels=labels, page=_PAGE).items)
        except NotServed:
            return None if kind.group.startswith("kueue") else []
        except ArgosyError as error:
            withheld[kind.plural] = str(error)
            return None

    with ThreadPoolExecutor(max_workers=8, thread_name_prefix="observe") as pool:
        of_run = f"{RUN_LABEL}={run.name}"
        gang_pods = pool.submit(listed, PODS, of_run)
        events = pool.submit(listed, EVENTS)
        nodes = pool.submit(listed, NODES)
        jobs, jobsets = pool.submit(listed, JOBS, of_run), pool.submit(listed, JOB_SETS, of_run)
        workflows: Sequence[Object] = ()
        refused: ArgosyError | None = None
        try:
            workflows = run.workflows()
        except ArgosyError as error:
            if again and isinstance(error, Transient):
                raise
            refused, withheld["workflows"] = error, str(error)
        newest = name_of(workflows[-1]) if workflows else run.name
        run.known = workflows[-1] if workflows else None
        stage_pods = pool.submit(listed, PODS, f"{WORKFLOW_LABEL}={newest}")
        view = run.view()
        withheld |= _unread(view) if refused is None else {}
        gangs = [*(jobs.result() or ()), *(jobsets.result() or ())]
        queued, queues = _queue(gangs, pool, listed)
        found: dict[str, list[Object]] = {
            "workflows": list(workflows), "pods": _unique(gang_pods, stage_pods), "jobs": jobs.result() or [],
            "jobsets": jobsets.result() or [], "queued": queued, "queues": queues,
        }  # fmt: skip
        found["events"] = _about(events.result() or [], found)
        listed_nodes = nodes.result()
    if refused is not None and not isinstance(refused, Forbidden):
        withheld = {"cluster": str(refused)}  # which refuses everything alike
    return observed_of(run.name, cluster.namespace, view, found, listed_nodes, withheld)


def observed_of(
    run: str, namespace: str, view: "RunView", found: Mapping[str, list[Object]], nodes: list[Object] | None,
    withheld: Mapping[str, str],
) -> Observed:  # fmt: skip
    """Evidence from raw objects: pruned, and without secrets."""
    secrets = [*secret_values(view.description), *secret_values(dict(found))]
    names = {name_of(item) for items in found.values() for item in items} | {name_of(item) for item in nodes or ()}
    ordinary = {run, namespace, view.experiment, view.storage, *_OWN_VALUES, *names, *_images(found.get("pods", ()))}
    mask = masking(secrets, ordinary)
    objects: dict[str, Any] = {kind: tuple(kept(kind, item, mask) for item in items) for kind, items in found.items()}
    keys = _selecting(found.get("pods", ()))
    return Observed(
        run=run, namespace=namespace, taken_at=now_text(), view=kept_view(view, mask),
        nodes=None if nodes is None else tuple(kept("nodes", _with_labels(item, keys), mask) for item in nodes),
        withheld={kind: mask(why) for kind, why in withheld.items()}, **objects,
    )  # fmt: skip


def _queue(
    gangs: list[Object], pool: ThreadPoolExecutor, listed: Callable[[Kind], list[Object] | None]
) -> tuple[list[Object], list[Object]]:
    """Kueue's objects, where a gang is queued."""
    if not any(text(item, "metadata", "labels", QUEUE_LABEL) for item in gangs):
        return [], []
    uids = {uid_of(item) for item in gangs}
    for workloads_kind, queues_kind in ((WORKLOADS, LOCAL_QUEUES), _OLDER_KUEUE):
        futures = pool.submit(listed, workloads_kind), pool.submit(listed, queues_kind)
        workloads, queues = (future.result() for future in futures)
        if workloads is not None:
            own = [item for item in workloads if _owners(item) & uids]
            wanted = {text(item, "spec", "queueName") for item in own}
            return own, [item for item in queues or () if name_of(item) in wanted]
    return [], []


def _owners(item: Object) -> set[str]:
    return {text(owner, "uid") for owner in parts(item, "metadata", "ownerReferences")}


def _about(events: list[Object], found: Mapping[str, Iterable[Object]]) -> list[Object]:
    """Events about these very objects."""
    uids = {uid_of(item) for items in found.values() for item in items} - {""}
    return [event for event in events if (event.get("involvedObject") or {}).get("uid") in uids]


def _unique(*futures: "Future[list[Object] | None]") -> list[Object]:
    return list({uid_of(item): item for future in futures for item in future.result() or ()}.values())


def _images(pods: Iterable[Object]) -> set[str]:
    return {
        text(container, "image") for pod in pods for group in ("containers", "initContainers")
        for container in parts(pod, "spec", group)
    }  # fmt: skip


def _selecting(pods: Iterable[Object]) -> set[str]:
    """Keys of the labels by which pods choose nodes."""
    keys: set[str] = set()
    for pod in pods:
        spec = pod.get("spec") or {}
        keys |= set(spec.get("nodeSelector") or ())
        affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
        required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
        for term in required.get("nodeSelectorTerms") or ():
            keys |= {str(item.get("key")) for item in term.get("matchExpressions") or ()}
    return keys


def _with_labels(node: Object, keys: set[str]) -> Object:
    metadata = node.get("metadata") or {}
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key in keys}
    return {**node, "metadata": {**metadata, "labels": labels}}
