"""The only door to the `kubernetes` package: it finds the cluster and signs in; requests and answers are plain JSON."""

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.cluster.answers import ObjectMissing, Request
from components.cluster.base import (
    WRITER,
    Conflict,
    Listing,
    NotServed,
    Object,
    Propagation,
    WatchExpired,
)  # fmt: skip
from components.cluster.create import create_marked, marked_as_ours
from components.cluster.kinds import Kind
from components.cluster.light_client import load_kubernetes
from components.cluster.streams import ApiLog, ApiWatch
from components.cluster.transport import BRIEF, KEEP_ALIVE, PATIENT, Transport
from components.errors import BadInput, EnvironmentUnfit

_PAGE = 500
_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_MERGE_PATCH = "application/merge-patch+json"


@dataclass(frozen=True)
class KubernetesCluster:
    """`Cluster` over HTTP."""

    transport: Transport
    namespace: str
    context: str
    """Name of the kubeconfig's context; `in-cluster` for a pod's own account."""
    certificate_path: str = ""
    """Of the authority that the API server is known by; empty: none is named."""

    @classmethod
    def connect(
        cls, *, context: str = "", namespace: str = "", kubeconfig: str = "", is_patient: bool = True
    ) -> "KubernetesCluster":
        """Read where the cluster is and who we are; nothing is sent yet.

        A kubeconfig that is named, by argument or KUBECONFIG, wins; then a pod's own account; then ~/.kube/config.
        People at a terminal are not patient: for them a server that does not answer is given up on after seconds.
        Raises BadInput when there is no such configuration.
        """
        load_kubernetes()
        named = kubeconfig or os.environ.get("KUBECONFIG", "")
        is_pod = not named and not context and bool(os.environ.get("KUBERNETES_SERVICE_HOST"))
        if is_pod:
            configuration, found, default = _pod_account()
        else:
            configuration, found, default = _kubeconfig(named or str(Path.home() / ".kube" / "config"), context)
        from kubernetes.client.rest import RESTClientObject

        configuration.socket_options = KEEP_ALIVE
        transport = Transport(
            RESTClientObject(configuration).pool_manager, configuration.host.rstrip("/"),
            lambda: configuration.get_api_key_with_prefix("BearerToken"), PATIENT if is_patient else BRIEF,
        )  # fmt: skip
        return cls(transport, namespace or default, found, configuration.ssl_ca_cert or "")

    @property
    def seconds_since_away(self) -> float:
        return self.transport.seconds_since_away

    def create(self, kind: Kind, body: Mapping[str, Any]) -> Object:
        mark, marked = marked_as_ours({"apiVersion": kind.api_version, "kind": kind.kind, **body})
        name = str(body["metadata"]["name"])
        request, path = self._request("create", kind, name), kind.path(self.namespace)
        return create_marked(
            self.transport.tries, mark,
            create=lambda: _object(self.transport.once(request, "POST", path, query=_WRITING, body=marked)),
            read=lambda: self.read(kind, name),
        )  # fmt: skip

    def try_create(self, kind: Kind, body: Mapping[str, Any]) -> None:
        """Have the API server, its policies and quotas judge an object, and create nothing. Raises as `create` does."""
        named = {"apiVersion": kind.api_version, "kind": kind.kind, **body}
        request = self._request("create", kind, str(body["metadata"]["name"]))
        query = {**_WRITING, "dryRun": "All"}
        self.transport.ask(request, "POST", kind.path(self.namespace), query=query, body=named)

    def read(self, kind: Kind, name: str) -> Object | None:
        try:
            return _object(self.transport.ask(self._request("get", kind, name), "GET", kind.path(self.namespace, name)))
        except ObjectMissing:
            return None

    def list(self, kind: Kind, *, labels: str = "", fields: str = "", page: int = _PAGE) -> Listing:
        for _ in range(2):
            with contextlib.suppress(WatchExpired):  # the pages became too old while they were read
                return self._list(kind, _selectors(labels, fields), page)
        return self._list(kind, _selectors(labels, fields), page)

    def _list(self, kind: Kind, query: dict[str, str], size: int) -> Listing:
        items: list[Object] = []
        page = {**query, "limit": str(size)}
        while True:
            answer = self.transport.ask(self._request("list", kind), "GET", kind.path(self.namespace), query=page)
            items += answer.get("items") or []
            metadata = answer.get("metadata") or {}
            if not metadata.get("continue"):
                return Listing(items, str(metadata.get("resourceVersion", "")))
            page["continue"] = metadata["continue"]

    def delete(
        self, kind: Kind, name: str, *, grace_seconds: int | None = None, propagation: Propagation = "Background",
        uid: str | None = None,
    ) -> bool:  # fmt: skip
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        if uid:
            options["preconditions"] = {"uid": uid}
        request = self._request("delete", kind, name)
        try:
            self.transport.ask(request, "DELETE", kind.path(self.namespace, name), body=options)
        except ObjectMissing:
            return False
        except Conflict:
            if uid:
                return False
            raise
        return True

    def patch(self, kind: Kind, name: str, body: Object) -> Object | None:
        path = kind.path(self.namespace, name)
        try:
            return _object(self.transport.ask(
                self._request("patch", kind, name), "PATCH", path, query=_WRITING, body=body, content_type=_MERGE_PATCH
            ))  # fmt: skip
        except ObjectMissing:
            return None

    def watch(
        self, kind: Kind, *, labels: str = "", fields: str = "", resource_version: str = "",
        seconds: float | None = None,
    ) -> ApiWatch:  # fmt: skip
        return ApiWatch(
            self.transport, self._request("watch", kind), kind.path(self.namespace), _selectors(labels, fields),
            resource_version=resource_version, seconds=seconds,
        )  # fmt: skip

    def logs(self, pod: str, container: str, *, follow: bool = False) -> ApiLog | None:
        query = {"container": container, **({"follow": "true"} if follow else {})}
        request = self._request("get", _POD_LOGS, pod)
        try:
            answer = self.transport.stream(request, f"/api/v1/namespaces/{self.namespace}/pods/{pod}/log", query)
        except ObjectMissing:
            return None
        except BadInput as error:
            if "waiting to start" in error.seen or "is not valid for pod" in error.seen or "not found" in error.seen:
                return None
            raise
        return ApiLog(answer, follow=follow)

    def serves(self, kind: Kind) -> bool:
        try:
            answer = self.transport.ask(self._request("discover", kind), "GET", kind.root())
        except (NotServed, ObjectMissing):
            return False
        return any(item.get("name") == kind.plural for item in answer.get("resources") or ())

    def _request(self, verb: str, kind: Kind, name: str = "") -> Request:
        return Request(verb, kind, self.namespace, name, is_in_cluster=self.context == _IN_CLUSTER)


_WRITING = {"fieldManager": WRITER, "fieldValidation": "Strict"}
"""Strict: an unknown field is refused, not dropped."""

_IN_CLUSTER = "in-cluster"
_POD_LOGS = Kind("v1", "pods/log", "Pod log")


def _pod_account() -> tuple[Any, str, str]:
    from kubernetes.client import Configuration
    from kubernetes.config import ConfigException, load_incluster_config

    configuration = Configuration()
    try:
        load_incluster_config(configuration)
        namespace = (_ACCOUNT / "namespace").read_text().strip()
    except (ConfigException, OSError) as error:
        fix = "let the pod have its service account's token, or set KUBECONFIG"
        raise EnvironmentUnfit("NoServiceAccount", f"this pod has no account for the cluster: {error}", fix) from error
    return configuration, _IN_CLUSTER, namespace


def _kubeconfig(paths: str, context: str) -> tuple[Any, str, str]:
    """The configuration, and the context's name and namespace."""
    from kubernetes.client import Configuration
    from kubernetes.config import ConfigException
    from kubernetes.config.kube_config import KubeConfigLoader, KubeConfigMerger

    if not any(Path(path).expanduser().is_file() for path in paths.split(os.pathsep) if path):
        fix = "set KUBECONFIG or --context, or use --target local"
        raise BadInput("NoCluster", f"there is no kubeconfig at {paths}", fix)
    import yaml

    try:
        merged = KubeConfigMerger(paths)
        if merged.config is None:
            raise ConfigException("it is empty")
        known = [str(item["name"]) for item in merged.config.value.get("contexts") or ()]
        chosen = context or str(merged.config.value.get("current-context") or "")
        if chosen not in known:
            what = f"no context in {paths} is called {chosen!r}" if chosen else f"{paths} chooses no context"
            raise BadInput("UnknownContext", what, f"use one of: {', '.join(sorted(known)) or 'none is there'}")
        loader = KubeConfigLoader(merged.config, active_context=chosen, config_persister=merged.save_changes,
                                  config_base_path=None)  # fmt: skip
        configuration = Configuration()
        loader.load_and_set(configuration)
    except (ConfigException, yaml.YAMLError, OSError, TypeError, KeyError, AttributeError) as error:
        fix = "check it with `kubectl config view`"
        raise BadInput("KubeconfigRefused", f"cannot use {paths}: {error}", fix) from error
    return configuration, chosen, str(loader.current_context["context"].get("namespace") or "default")


def _selectors(labels: str, fields: str) -> dict[str, str]:
    return {**({"labelSelector": labels} if labels else {}), **({"fieldSelector": fields} if fields else {})}


def _object(answer: Any) -> Object:
    if not isinstance(answer, dict):
        raise EnvironmentUnfit("NotAnApiServer", "the answer is no object", "is this the address of an API server?")
    return answer
