"""The only door to the `argo_workflows` package: Argo through its server, for who has no rights at the API server.

The package tracks Argo 3.7, so its models refuse what Argo 4 says. Connection, TLS and proxy are its own; requests and
answers are plain JSON.
"""

import json
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import SplitResult, urlsplit

from components.cluster.answers import NotDone, ObjectMissing, Request, Unsettled
from components.cluster.base import (
    AlreadyThere,
    Conflict,
    Forbidden,
    LogStream,
    NamespaceMissing,
    NotSignedIn,
    Refused,
    WatchExpired,
    WatchStream,
)
from components.cluster.create import create_marked, marked_as_ours
from components.cluster.kinds import WORKFLOW_TEMPLATES, WORKFLOWS
from components.cluster.streams import ApiLog, ApiWatch, Dialect
from components.cluster.transport import BRIEF, KEEP_ALIVE, Transport, Words
from components.contracts.stop import StopRequest
from components.errors import ArgosyError, BadInput, EnvironmentUnfit
from infra.argo.argo import MAIN, Strategy, Workflow


class InternalError(Unsettled):
    """The server says that something of its own went wrong, whatever it was."""


@dataclass(frozen=True)
class ArgoByServer:
    """`Argo` with the rights of a token."""

    transport: Transport
    namespace: str

    @classmethod
    def connect(
        cls, *, url: str, namespace: str, token: str = "", ca_file: str = "", skip_verify: bool = False
    ) -> "ArgoByServer":
        """Nothing is sent yet. `token` as `argo auth token` prints it, with or without `Bearer`. Raises BadInput."""
        parts = urlsplit(url if "://" in url else f"https://{url}")
        if parts.scheme not in ("http", "https") or not parts.hostname or not _has_port_or_none(parts):
            raise BadInput("BadServer", f"{url!r} is no address of an Argo Server", "write https://host:2746")
        if not (token.isascii() and token.strip().isprintable()):
            fix = (
                "set ARGO_TOKEN, or argo_server.token_file, to what `argo auth token` or `kubectl create token` prints"
            )
            raise BadInput("BadToken", "the token holds characters that no token has", fix)
        if ca_file and not Path(ca_file).is_file():
            raise BadInput("CaMissing", f"there is no file {ca_file}", "correct argo_server.ca_file")
        from argo_workflows.configuration import Configuration
        from argo_workflows.rest import RESTClientObject

        configuration = Configuration(host=f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}")
        configuration.ssl_ca_cert = ca_file or None
        configuration.socket_options = KEEP_ALIVE
        if skip_verify:
            configuration.verify_ssl = False
            warnings.filterwarnings("ignore", message="Unverified HTTPS request")
        words = token.split()
        header = " ".join(words) if len(words) > 1 else f"Bearer {words[0]}" if words else None
        pool = RESTClientObject(configuration).pool_manager
        return cls(Transport(pool, configuration.host, lambda: header, BRIEF, explain, _WORDS), namespace)

    @property
    def target(self) -> str:
        return "argo-server"

    @property
    def place(self) -> str:
        return f"namespace {self.namespace}, Argo Server {self.transport.host}"

    def lint(self, workflow: Workflow) -> None:
        request = Request("lint", WORKFLOWS, self.namespace, str(workflow["metadata"].get("name", "")))
        try:
            self.transport.once(request, "POST", f"{self._workflows}/lint", body=self._body(workflow))
        except InternalError as error:  # how Argo 4.0 answers when it finds fault with a Workflow
            raise Refused("LintRefused", error.seen, "correct what is named") from error

    def require_namespace(self) -> None:
        """Argo Server lists the Workflows of a namespace that is not there as none; nothing of it tells more."""

    def create(self, workflow: Workflow) -> Workflow:
        mark, marked = marked_as_ours(workflow)
        name = str(workflow["metadata"]["name"])
        request = Request("create", WORKFLOWS, self.namespace, name)
        return create_marked(
            self.transport.tries, mark,
            create=lambda: cast(Workflow, self.transport.once(request, "POST", self._workflows,
                                                              body=self._body(marked))),
            read=lambda: self.read(name),
        )  # fmt: skip

    def read(self, name: str) -> Workflow | None:
        return self._get(Request("get", WORKFLOWS, self.namespace, name), f"{self._workflows}/{name}")

    def list(self, *, labels: str) -> Sequence[Workflow]:
        request = Request("list", WORKFLOWS, self.namespace)
        query = {"listOptions.labelSelector": labels}
        answer = self.transport.ask(request, "GET", self._workflows, query=query)
        return list(answer.get("items") or ())

    def template(self, name: str) -> Workflow | None:
        request = Request("get", WORKFLOW_TEMPLATES, self.namespace, name)
        return self._get(request, f"/api/v1/workflow-templates/{self.namespace}/{name}")

    def watch(self, name: str, *, resource_version: str) -> WatchStream:
        return ApiWatch(
            self.transport, Request("watch", WORKFLOWS, self.namespace, name),
            f"/api/v1/workflow-events/{self.namespace}", {"fieldSelector": f"metadata.name={name}"},
            resource_version=resource_version, seconds=None, dialect=_DIALECT,
        )  # fmt: skip

    def end(self, name: str, *, strategy: Strategy, request: StopRequest) -> bool:
        asked = Request(strategy.lower(), WORKFLOWS, self.namespace, name)
        body = {"name": name, "namespace": self.namespace}
        try:
            self.transport.ask(asked, "PUT", f"{self._workflows}/{name}/{strategy.lower()}", body=body)
        except ObjectMissing:
            return False
        return True

    def logs(self, workflow: str, pod: str, *, follow: bool) -> LogStream | None:
        query = {"podName": pod, "logOptions.container": MAIN}
        if follow:
            query["logOptions.follow"] = "true"
        request = Request("get logs of", WORKFLOWS, self.namespace, workflow)
        try:
            answer = self.transport.stream(request, f"{self._workflows}/{workflow}/log", query)
        except ObjectMissing:
            return None
        return ApiLog(answer, follow=follow, text=_content)

    @property
    def _workflows(self) -> str:
        return f"/api/v1/workflows/{self.namespace}"

    def _body(self, workflow: Workflow) -> dict[str, Any]:
        metadata = {**workflow["metadata"], "namespace": self.namespace}
        return {"namespace": self.namespace, "workflow": {**workflow, "metadata": metadata}}

    def _get(self, request: Request, path: str) -> Workflow | None:
        try:
            return cast(Workflow, self.transport.ask(request, "GET", path))
        except ObjectMissing:
            return None


_ADDRESS = "--server, ARGO_SERVER or argo_server.url in the configuration file"
_WORDS = Words(
    kind="an Argo Server", ca_place="argo_server.ca_file in the configuration file",
    if_away=f"is the Argo Server up, and reachable from here? is its address right ({_ADDRESS})?",
    if_unknown=f"correct {_ADDRESS}",
)  # fmt: skip


def _has_port_or_none(parts: SplitResult) -> bool:
    try:
        return parts.port != 0
    except ValueError:  # no number, or none that a port may have
        return False


_CANNOT = re.compile(r'cannot (\w+) resource "([^"]+)" in API group "([^"]*)"')
"""Kubernetes' words in the server's answer."""
_VERBS = ("create", "get", "list", "watch")
"""Of requests whose name is a verb of Kubernetes."""


def _right(request: Request, message: str) -> str:
    """The right that lacks. The server asks in the token's name, and for logs it asks for more than those."""
    found = _CANNOT.search(message)
    if found is None and request.kind is not None and request.verb in _VERBS:
        return f'verb "{request.verb}" on "{request.kind.plural}" of API group "{request.kind.group}"'
    return f'verb "{found[1]}" on "{found[2]}" of API group "{found[3]}"' if found else f'verb "{request.verb}"'


def explain(request: Request, status: int, data: bytes, headers: Mapping[str, str]) -> ArgosyError:
    """The error that an answer of the Argo Server stands for."""
    try:
        answer = json.loads(data)
        fault = answer.get("error")  # of a stream
        message = str(answer.get("message") or (fault.get("message") if isinstance(fault, dict) else fault) or "")
    except (ValueError, AttributeError):
        message = ""
    if status == 403 and data.lstrip().startswith(b"<"):
        seen = f"{request}: {data[:100].decode('utf-8', 'replace').strip()!r} (HTTP status 403), which Argo never says"
        return EnvironmentUnfit("NotAnArgoServer", seen, f"is this the address of an Argo Server? {_WORDS.if_unknown}")
    message = message or data[:300].decode("utf-8", "replace").strip() or f"HTTP status {status}"
    told = f"{request}: {message}"
    if status == 401:
        fix = "set ARGO_TOKEN, or argo_server.token_file, to a token that is valid now"
        return NotSignedIn("NotSignedIn", f"the Argo Server does not accept the token ({told})", fix)
    if status == 403:
        return Forbidden("Forbidden", told, f"allow it: a Role with {_right(request, message)} for the token's account")
    if status == 404 and "namespaces" in message:
        fix = "create it, or choose another with --namespace"
        return NamespaceMissing("NamespaceMissing", f"there is no namespace {request.namespace}", fix)
    if status == 404:
        return ObjectMissing("ObjectMissing", told)
    if status == 409:
        if "already exists" in message:
            return AlreadyThere("AlreadyThere", told, "it was created by someone else, or by an earlier attempt")
        return Conflict("Conflict", told, "read it again and decide again")
    if status == 410 or "too old resource version" in message:
        return WatchExpired("WatchExpired", told, "read it, watch from there")
    if "too large" in message:
        return Refused("TooLarge", told, "make the Workflow smaller: fewer tasks, shorter texts")
    if status in (400, 405, 413, 415, 422):
        return Refused("Refused", told, "correct what is named")
    if status == 429:
        return NotDone("ServerBusy", told, "try again in a moment")
    if status >= 500:
        kind = InternalError if status == 500 else Unsettled
        return kind("ServerFailed", f"{told} (HTTP status {status})", "try again; ask whoever runs the Argo Server")
    fix = "is this the address of an Argo Server?"
    return EnvironmentUnfit("Unexpected", f"{told} (HTTP status {status})", fix)


def _event(line: Any) -> Any:
    if "error" in line:
        # The server turns a forgotten version, and everything else that ends its own watch, into this.
        raise WatchExpired(
            "WatchExpired", str(line["error"].get("message", line["error"])), "read it, watch from there"
        )
    return line.get("result") or {}


def _content(line: bytes) -> bytes:
    try:
        result = json.loads(line).get("result") or {}
    except ValueError:
        return line
    return str(result.get("content", "")).encode()


_DIALECT = Dialect(option="listOptions.{}", query={}, event=_event)
