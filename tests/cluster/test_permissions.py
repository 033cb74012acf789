"""With one verb less than access.yaml gives, what needs it fails, and says which verb on what.

Each account is made as often as it has verbs, each time without one; then the code that needs that verb is called.
"""

import io
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from components.cluster.api import KubernetesCluster
from components.cluster.base import Forbidden
from components.cluster.kinds import (
    EVENTS,
    JOB_SETS,
    JOBS,
    LOCAL_QUEUES,
    PODS,
    SECRETS,
    SERVICES,
    WORKFLOWS,
    WORKLOADS,
    Kind,
)
from components.contracts.gang import GangLimits, GangSpec, ResumeRule
from components.contracts.pods import LostNodeRule, PodOptions
from components.contracts.stop import StopRequest
from components.errors import ArgosyError
from components.finish.gangs import end_gangs
from components.launch.cluster_owner import RunsHere
from components.launch.pods_backend import PodsBackend
from components.launch.wakeup import Wakeup
from components.launch.workflow_intent import find_workflow
from components.ledger.ledger import this_process
from components.runtime.log import Log
from infra.argo.follower import Follower
from infra.argo.kubernetes import ArgoByKubernetes
from infra.argo.server import ArgoByServer
from infra.kubernetes.janitor.loop import Janitor
from infra.kubernetes.janitor.rules import Action, Limits
from infra.kubernetes.permissions import JANITOR, LAUNCHER, SUBMITTER, Account, role
from tests.cluster.place import HAS_SERVER, Place

pytestmark = pytest.mark.platform

_PATIENCE = 60.0


@dataclass(frozen=True)
class Case:
    """One verb of one account."""

    account: Account
    group: str
    resource: str
    verb: str

    def __str__(self) -> str:
        return f"{self.account.name}-{self.verb}-{self.resource.replace('/', '-')}"

    def without(self) -> Account:
        rules = []
        for rule in self.account.rules:
            for resource in rule.resources:
                is_it = (rule.group, resource) == (self.group, self.resource)
                verbs = tuple(verb for verb in rule.verbs if not (is_it and verb == self.verb))
                if verbs:
                    rules.append(replace(rule, resources=(resource,), verbs=verbs))
        return replace(self.account, name=f"less-{self}"[:60], rules=tuple(rules))


def cases(account: Account) -> list[Case]:
    return [
        Case(account, rule.group, resource, verb)
        for rule in account.rules
        for resource in rule.resources
        for verb in rule.verbs
        if resource != "workflowtaskresults"  # Argo's own container needs these, not our code
    ]


ALL = (*cases(LAUNCHER), *cases(JANITOR), *cases(SUBMITTER))


@dataclass
class Acting:
    """One account, lacking a verb, and what was logged while it acted."""

    cluster: KubernetesCluster
    token: str
    text: io.StringIO

    @property
    def log(self) -> Log:
        return Log({}, self.text)

    def says(self) -> str:
        return self.text.getvalue()


@pytest.fixture(scope="module")
def accounts(place: Place) -> dict[str, Path]:
    """A kubeconfig for each case, all made at once."""
    made: list[dict[str, Any]] = []
    for case in ALL:
        less = case.without()
        subject = {"kind": "ServiceAccount", "name": less.name, "namespace": place.namespace}
        made += [
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": less.name}},
            role(less),
            {
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": less.name},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": less.name},
                "subjects": [subject],
            },
            {
                "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
                "metadata": {"name": less.name, "annotations": {"kubernetes.io/service-account.name": less.name}},
            },
        ]  # fmt: skip
    place.apply({"apiVersion": "v1", "kind": "List", "items": made})
    base = json.loads(place.submitter.read_text())
    found: dict[str, Path] = {}
    for case in ALL:
        name = case.without().name
        base["users"][0]["user"] = {"token": _token(place, name)}
        found[str(case)] = place.folder / f"{name}.kubeconfig"
        found[str(case)].write_text(json.dumps(base))
    return found


def _token(place: Place, name: str) -> str:
    import base64

    deadline = time.monotonic() + _PATIENCE
    while True:
        secret = place.cluster.read(SECRETS, name) or {}
        if token := (secret.get("data") or {}).get("token"):
            return base64.b64decode(token).decode()
        assert time.monotonic() < deadline, f"{name} gets no token"
        time.sleep(0.2)


@pytest.fixture
def acting(request: pytest.FixtureRequest, accounts: dict[str, Path]) -> Acting:
    case: Case = request.getfixturevalue("case")
    path = accounts[str(case)]
    token = json.loads(path.read_text())["users"][0]["user"]["token"]
    return Acting(KubernetesCluster.connect(kubeconfig=str(path)), token, io.StringIO())


@pytest.fixture
def gang(place: Place) -> Iterator[str]:
    """A run of whose gang nothing is left afterwards."""
    run = f"perm-{time.monotonic_ns() % 10**9}"
    yield run
    end_gangs(place.cluster, run=run, workflow="", log=Log({}, io.StringIO()))
    for kind in (SECRETS, SERVICES):
        place.cluster.delete(kind, f"{run}-g0")


_wakeup: list[Wakeup] = []


def _backend(cluster: KubernetesCluster, kind: str, run: str, place: Place, log: Log) -> PodsBackend:
    _wakeup.append(Wakeup()) if not _wakeup else None
    # Pods that no node takes: nothing of them ever runs.
    options = PodOptions(
        image=place.image, platform_image=place.platform_image, lost_node=LostNodeRule(policy="force_after"),
        node_selector={"argosy.dev/nowhere": "true"},
    )  # fmt: skip
    return PodsBackend(
        cluster, "jobset" if kind == "jobset" else "job", run=run, num_nodes=1, options=options, workflow=None,
        environ={}, wakeup=_wakeup[0], log=log,
    )  # fmt: skip


def _spec(run: str) -> GangSpec:
    return GangSpec(
        run=run, generation=0, experiment="perm", model_version="v1", storage="s3://bucket/x", data_version="d",
        num_nodes=1, nproc_per_node=1, command=("true",), start="rank", workdir="", env={}, seed=1,
        limits=GangLimits(start_seconds=60.0, run_seconds=60.0, no_progress_seconds=60.0, stop_seconds=1.0),
        run_seconds_used=0.0, max_restarts=0, resume=ResumeRule(source="latest", on_new_data="refuse"),
        memory_per_rank_bytes=0, begin_reason="Start", begin_charged=False, coordinator_host="h", coordinator_port=1,
        coordinator_file="",
    )  # fmt: skip


def _launch(acting: Acting, place: Place, run: str, case: Case) -> None:
    """Everything the launcher does to a gang, until it may not go on."""
    kind = "job" if case.resource in ("jobs", "services") else "jobset"
    backend = _backend(acting.cluster, kind, run, place, acting.log)
    try:
        backend.adopt(_spec(run))
        backend.start(_spec(run))
        deadline = time.monotonic() + _PATIENCE
        while (case.verb == "watch" or case.resource == "events") and "may not" not in acting.says():
            backend.observe()
            assert time.monotonic() < deadline, acting.says()
            time.sleep(0.1)
        backend.remove()
        backend.remove_earlier(())
        for part in (SECRETS, SERVICES):  # asked for only when the answer to a creation got lost
            acting.cluster.read(part, f"{run}-g0")
    finally:
        backend.close()


def _fails_naming(case: Case, act: Callable[[], object], acting: Acting) -> None:
    try:
        act()
    except ArgosyError as error:
        acting.text.write(f"{error}\n")
    name = f"{case.resource}.{case.group}" if case.group else case.resource
    ours = f"may not {case.verb} {name}"
    of_server = f'a Role with verb "{case.verb}" on "{case.resource}" of API group "{case.group}" for the token'
    assert ours in acting.says() or of_server in acting.says(), acting.says()[-3000:]


def _served(place: Place, kind: Kind) -> None:
    if not place.cluster.serves(kind):
        pytest.skip(f"the cluster serves no {kind.kind}")


@pytest.mark.parametrize("case", cases(LAUNCHER), ids=str)
def test_the_launcher_needs_each_of_its_verbs(case: Case, acting: Acting, place: Place, gang: str) -> None:
    owner = this_process(target="kubernetes").model_copy(update={"cluster": "c/n", "host": "h", "boot_id": "b"})

    def act() -> None:
        match case.resource:
            case "workflows" if case.verb == "get":
                find_workflow(acting.cluster, gang)
            case "workflows":
                RunsHere(acting.cluster, owner, acting.log).is_over(gang, owner)
            case "localqueues" | "workloads":
                wanted = LOCAL_QUEUES if case.resource == "localqueues" else WORKLOADS
                _served(place, wanted)
                _use(acting.cluster, wanted, case.verb)
            case _:
                _launch(acting, place, gang, case)

    _fails_naming(case, act, acting)


READ_BY_PEOPLE = (PODS, EVENTS, JOBS, JOB_SETS, LOCAL_QUEUES, WORKLOADS)
"""For `why`, and before a submit to a queue."""


@pytest.mark.parametrize("case", cases(SUBMITTER), ids=str)
def test_people_need_each_of_their_verbs(case: Case, acting: Acting, place: Place, gang: str) -> None:
    argo = ArgoByKubernetes(acting.cluster)

    def act() -> None:
        match case.resource, case.verb:
            case "workflows", "create":
                argo.create({"metadata": {"name": gang}, "spec": {"suspend": True}})
            case "workflows", "get":
                Follower(argo, gang).latest()
            case "workflows", "list":
                argo.list(labels="argosy.dev/run")
            case "workflows", "watch":
                for _ in argo.watch(gang, resource_version=place.cluster.list(WORKFLOWS).resource_version):
                    break
            case "workflows", "patch":
                argo.end(gang, strategy="Stop", request=StopRequest(by="test"))
            case "workflowtemplates", "get":
                argo.template("none")
            case "pods", "watch":
                _logs_by_server(place, acting.token, gang)
            case "pods/log", "get":
                argo.logs(gang, "none", follow=False)
            case "deployments", "get":
                from pipelines.cli.readiness import require_janitor

                require_janitor(acting.cluster, told=lambda text: acting.text.write(text))
            case resource, verb:
                kind = {kind.plural: kind for kind in READ_BY_PEOPLE}[resource]
                _served(place, kind)
                _use(acting.cluster, kind, verb)

    _fails_naming(case, act, acting)


NEEDED_BY_LOGS = (("workflows", "get"), ("workflows", "watch"), ("pods", "list"), ("pods", "watch"))
"""Of Argo Server, which asks in the caller's name."""


@pytest.mark.parametrize(
    "case", [case for case in cases(SUBMITTER) if (case.resource, case.verb) in NEEDED_BY_LOGS], ids=str
)
def test_logs_through_the_argo_server_need_each_of_these_verbs(
    case: Case, acting: Acting, place: Place, gang: str
) -> None:
    _fails_naming(case, lambda: _logs_by_server(place, acting.token, gang), acting)


def _logs_by_server(place: Place, token: str, workflow: str) -> None:
    """Follow the logs of a Workflow that has no pods, until it is told that this is not allowed."""
    if not HAS_SERVER:
        pytest.skip("ARGO_SERVER names no Argo Server")
    place.cluster.create(WORKFLOWS, {"metadata": {"name": workflow}, "spec": {"suspend": True}})
    argo = ArgoByServer.connect(
        url=f"https://{os.environ['ARGO_SERVER']}", namespace=place.namespace, token=token,
        ca_file=os.environ.get("ARGO_SERVER_CA", ""),
    )  # fmt: skip
    stream = argo.logs(workflow, "none", follow=True)
    assert stream is not None
    with stream:
        next(iter(stream), None)


def _use(cluster: KubernetesCluster, kind: Kind, verb: str) -> None:
    if verb == "get":
        cluster.read(kind, "none")
    elif verb == "list":
        cluster.list(kind)
    else:
        with cluster.watch(kind) as stream:
            next(iter(stream), None)


@pytest.mark.parametrize("case", cases(JANITOR), ids=str)
def test_the_janitor_needs_each_of_its_verbs_and_ends_without_one(
    case: Case, acting: Acting, place: Place, gang: str
) -> None:
    _allow_nodes(place, case)

    def act() -> None:
        janitor = Janitor(acting.cluster, limits=Limits(), log=acting.log)
        try:
            if case.verb in ("delete", "patch"):
                janitor._do(_something_to_end(place, case.resource, gang))
            else:
                stopped = threading.Event()
                guard = threading.Timer(_PATIENCE, stopped.set)
                guard.start()
                janitor.run(stopped)
                guard.cancel()
        finally:
            janitor.close()

    _fails_naming(case, act, acting)


def _allow_nodes(place: Place, case: Case) -> None:
    """Nodes are of no namespace, so a Role cannot give them."""
    name = f"nodes-{place.namespace}-{case}"[:250]
    place.kubectl(
        "create", "clusterrolebinding", name, f"--clusterrole=argosy-nodes-{place.namespace}",
        f"--serviceaccount={place.namespace}:{case.without().name}",
    )  # fmt: skip
    place.kubectl("label", "clusterrolebinding", name, f"argosy.dev/test={place.namespace}")


@pytest.fixture(scope="module", autouse=True)
def no_binding_is_left(place: Place) -> Iterator[None]:
    yield
    place.kubectl("delete", "clusterrolebinding", f"--selector=argosy.dev/test={place.namespace}", may_fail=True)


def _something_to_end(place: Place, resource: str, run: str) -> Action:
    """What the janitor is there for, as its rules say it."""
    template = {
        "restartPolicy": "Never", "nodeSelector": {"argosy.dev/nowhere": "true"},
        "containers": [{"name": "main", "image": place.image}],
    }  # fmt: skip
    job = {"suspend": True, "template": {"spec": template}}
    kind, verb, spec = {
        "pods": (PODS, "force-delete", template),
        "jobs": (JOBS, "delete", job),
        "jobsets": (
            JOB_SETS, "delete",
            {"suspend": True, "replicatedJobs": [{"name": "n", "replicas": 1, "template": {"spec": job}}]},
        ),
        "workflows": (WORKFLOWS, "stop", {"suspend": True}),
    }[resource]  # fmt: skip
    labels = {"argosy.dev/run": run, "argosy.dev/gang": f"{run}-g0"}
    made = place.cluster.create(kind, {"metadata": {"name": f"{run}-g0", "labels": labels}, "spec": spec})
    return Action(verb, kind.kind, f"{run}-g0", str(made["metadata"]["uid"]), "a test")  # type: ignore[arg-type]


def test_the_refusal_is_an_error_of_the_environment() -> None:
    assert Forbidden.exit_code == 81
