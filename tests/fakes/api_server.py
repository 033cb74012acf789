"""A Kubernetes API server at the wire: objects, resource versions, watches, and the ways in which it can misbehave.

Long because it is one server: its state, what it answers, and how it fails.
"""

import json
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

APIS = {
    "/api/v1": (
        "pods",
        "events",
        "configmaps",
        "namespaces",
        "secrets",
        "services",
        "nodes",
        "serviceaccounts",
        "persistentvolumeclaims",
    ),
    "/apis/apps/v1": ("deployments",),
    "/apis/argoproj.io/v1alpha1": ("workflows", "workflowtemplates"),
    "/apis/batch/v1": ("jobs",),
    "/apis/kueue.x-k8s.io/v1beta2": ("localqueues", "clusterqueues", "workloads", "workloadpriorityclasses"),
}


@dataclass(frozen=True)
class Asked:
    """One request as it arrived."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


Fault = Callable[["Handler", Asked], bool]
"""Misbehaves instead of an answer; True when it answered (or hung up), False to let the request through."""


@dataclass
class FakeApiServer:
    """State of the server. `faults` are taken one a request, oldest first."""

    port: int = 0
    version: int = 100
    oldest: int = 0
    """Watches from before this version get 410."""
    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    faults: deque[Fault] = field(default_factory=deque)
    asked: list[Asked] = field(default_factory=list)
    token: str = "good"
    logs: dict[str, bytes] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)
    history: list[tuple[int, str, dict[str, Any]]] = field(default_factory=list)
    watchers: list["queue.Queue[bytes | None]"] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def put(self, path: str, item: dict[str, Any], event: str = "") -> dict[str, Any]:
        """Store an object, as if somebody else had written it, and tell the watchers."""
        with self.lock:
            self.version += 1
            event = event or ("MODIFIED" if path in self.objects else "ADDED")
            item = {**item, "metadata": {"uid": f"uid-{self.version}", **item["metadata"]}}
            item["metadata"]["resourceVersion"] = str(self.version)
            if event == "DELETED":
                self.objects.pop(path, None)
            else:
                self.objects[path] = item
            collection = path.rpartition("/")[0]
            self.history.append((self.version, collection, {"type": event, "object": item}))
            for watcher in self.watchers:
                watcher.put(b"")  # something happened: look at the history
            return item

    def cut_watches(self) -> None:
        """Break every open watch without a word."""
        with self.lock:
            for watcher in self.watchers:
                watcher.put(None)

    def num(self, method: str, ending: str = "") -> int:
        """How many such requests arrived."""
        return sum(item.method == method and item.path.endswith(ending) for item in self.asked)

    def write_kubeconfig(self, path: Path, *, namespace: str = "ml", token: str = "good") -> Path:
        path.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "here",
                    "clusters": [{"name": "c", "cluster": {"server": self.url}}],
                    "users": [{"name": "u", "user": {"token": token}}],
                    "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": namespace}}],
                }
            )
        )
        return path


def let_through(handler: "Handler", asked: Asked) -> bool:
    """Behave, this once."""
    return False


def hang_up(handler: "Handler", asked: Asked) -> bool:
    """Close the connection instead of answering."""
    handler.close_connection = True
    return True


def do_then_hang_up(handler: "Handler", asked: Asked) -> bool:
    """Do what was asked, but never say so."""
    handler.is_mute = True
    handler.serve(asked)
    handler.close_connection = True
    return True


def answer(status: int, message: str = "", **fields: Any) -> Fault:
    """Answer with that status."""

    def fault(handler: "Handler", asked: Asked) -> bool:
        handler.refuse(status, message, **fields)
        return True

    return fault


class Handler(BaseHTTPRequestHandler):
    """One connection of a client."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    state: FakeApiServer
    is_mute = False

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        split = urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        query = {name: values[0] for name, values in parse_qs(split.query).items()}
        asked = Asked(self.command, split.path, query, dict(self.headers), body)
        self.state.asked.append(asked)
        with self.state.lock:
            fault = self.state.faults.popleft() if self.state.faults else None
        if fault is None or not fault(self, asked):
            self.serve(asked)

    do_POST = do_DELETE = do_PATCH = do_PUT = do_GET  # noqa: N815

    def serve(self, asked: Asked) -> None:
        state = self.state
        if asked.headers.get("Authorization") != f"Bearer {state.token}":
            return self.refuse(401, "Unauthorized", reason="Unauthorized")
        if asked.path in APIS:
            return self.reply({"resources": [{"name": name} for name in APIS[asked.path]]})
        root = next((root for root in APIS if asked.path.startswith(f"{root}/")), None)
        if root is None:
            return self.refuse(404, "404 page not found")
        if asked.path.endswith("/log"):
            return self._log(asked)
        parts = asked.path.removeprefix(f"{root}/").split("/")
        plural = parts[2] if parts[0] == "namespaces" and len(parts) > 2 else parts[0]
        if plural not in APIS[root]:
            return self.refuse(404, "the server could not find the requested resource", reason="NotFound")
        if asked.method == "GET" and asked.query.get("watch"):
            return self._watch(asked)
        with state.lock:
            return self._object(asked, plural)

    def _object(self, asked: Asked, plural: str) -> None:
        state, path = self.state, asked.path
        if asked.method == "POST":
            if "/namespaces/nowhere/" in path:
                details = {"name": "nowhere", "kind": "namespaces"}
                return self.refuse(404, 'namespaces "nowhere" not found', reason="NotFound", details=details)
            place = f"{path}/{asked.body['metadata']['name']}"
            if place in state.objects:
                return self.refuse(409, "already exists", reason="AlreadyExists")
            if asked.query.get("dryRun"):
                return self.reply(asked.body, 201)
            return self.reply(state.put(place, asked.body), 201)
        if asked.method == "GET" and path.endswith(f"/{plural}"):
            wanted = _wanted_labels(asked)
            items = [
                item for place, item in sorted(state.objects.items())
                if place.rpartition("/")[0] == path and _has_labels(item, wanted)
            ]  # fmt: skip
            first, size = int(asked.query.get("continue") or 0), int(asked.query.get("limit") or 500)
            more = {"continue": str(first + size)} if first + size < len(items) else {}
            return self.reply({"items": items[first : first + size],
                               "metadata": {"resourceVersion": str(state.version), **more}})  # fmt: skip
        found = state.objects.get(path)
        if found is None:
            name = path.rpartition("/")[2]
            details = {"name": name, "kind": plural}
            return self.refuse(404, f'{plural} "{name}" not found', reason="NotFound", details=details)
        if asked.method == "GET":
            return self.reply(found)
        if asked.method == "DELETE":
            uid = ((asked.body or {}).get("preconditions") or {}).get("uid")
            if uid and uid != found["metadata"]["uid"]:
                return self.refuse(409, "the UID in the precondition does not match", reason="Conflict")
            state.put(path, found, "DELETED")
            return self.reply({"status": "Success"})
        return self.reply(state.put(path, _merged(found, asked.body)))

    def _watch(self, asked: Asked) -> None:
        state = self.state
        since, wanted = int(asked.query.get("resourceVersion") or 0), _wanted_labels(asked)
        inbox: queue.Queue[bytes | None] = queue.Queue()
        with state.lock:
            if since and since < state.oldest:
                return self.refuse(410, "too old resource version", reason="Expired")
            state.watchers.append(inbox)
            first = [] if since else [
                {"type": "ADDED", "object": item} for place, item in state.objects.items()
                if place.rpartition("/")[0] == asked.path
            ]  # fmt: skip
            position = since or state.version
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            for event in first:
                self._chunk(event)
            while True:
                with state.lock:
                    news = [item for item in state.history if item[0] > position and item[1] == asked.path]
                    position = max([position, *(item[0] for item in state.history)])
                for _, _, event in news:
                    if _has_labels(event["object"], wanted):
                        self._chunk(event)
                if inbox.get() is None:
                    break
        except OSError:
            pass
        finally:
            self.close_connection = True
            with state.lock:
                state.watchers.remove(inbox)

    def _log(self, asked: Asked) -> None:
        text = self.state.logs.get(asked.path.split("/")[-2])
        if text is None:
            details = {"name": "x", "kind": "pods"}
            return self.refuse(404, "pods not found", reason="NotFound", details=details)
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for start in range(0, len(text), 7):
            piece = text[start : start + 7]
            self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        self.wfile.write(b"0\r\n\r\n")
        return None

    def _chunk(self, event: dict[str, Any]) -> None:
        line = json.dumps(event).encode() + b"\n"
        self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
        self.wfile.flush()

    def reply(self, value: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        if self.is_mute:
            return
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, text in (headers or {}).items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(data)

    def refuse(self, status: int, message: str, **fields: Any) -> None:
        self.reply({"kind": "Status", "status": "Failure", "message": message, "code": status, **fields}, status)


def _wanted_labels(asked: Asked) -> list[tuple[str, str, str]]:
    return [item.partition("=") for item in asked.query.get("labelSelector", "").split(",") if item]


def _has_labels(item: dict[str, Any], wanted: list[tuple[str, str, str]]) -> bool:
    labels = item["metadata"].get("labels") or {}
    return all(name in labels and (not equals or labels[name] == value) for name, equals, value in wanted)


def _merged(old: Any, new: Any) -> Any:
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    merged = {name: value for name, value in old.items() if name not in new or new[name] is not None}
    return merged | {name: _merged(old.get(name), value) for name, value in new.items() if value is not None}


@contextmanager
def api_server(handler: type[Handler] = Handler) -> Iterator[FakeApiServer]:
    """A running server, gone at the end."""
    state = FakeApiServer()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (handler,), {"state": state}))
    server.daemon_threads = True
    state.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        state.cut_watches()
        server.shutdown()
        server.server_close()
        thread.join()
