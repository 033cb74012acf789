"""An Argo Server at the wire, before the objects of `api_server`: its paths, its words, its streams."""

import json
from dataclasses import replace
from http import HTTPStatus
from typing import Any

from tests.fakes.api_server import Asked, Handler

_WORKFLOWS = "/apis/argoproj.io/v1alpha1/namespaces/{}/workflows"


class ArgoHandler(Handler):
    """Answers as `argo server --auth-mode client` does."""

    def serve(self, asked: Asked) -> None:
        if asked.headers.get("Authorization") != f"Bearer {self.state.token}":
            return self.refuse(401, "token not valid. see https://argo-workflows.readthedocs.io/en/latest/faq/")
        kind, namespace, *rest = asked.path.removeprefix("/api/v1/").split("/")
        folder = _WORKFLOWS.format(namespace)
        if kind == "workflow-events":
            query = {name.removeprefix("listOptions."): value for name, value in asked.query.items()}
            return self._watch(replace(asked, path=folder, query=query))
        if kind == "workflow-templates":
            return self._object(replace(asked, path=f"{folder.replace('workflows', 'workflowtemplates')}/{rest[0]}"),
                                "workflowtemplates")  # fmt: skip
        if rest[-1:] == ["lint"]:
            fits = bool(asked.body["workflow"]["spec"].get("entrypoint"))
            return self.reply(asked.body["workflow"]) if fits else self.refuse(500, "spec.entrypoint is required")
        if rest[-1:] == ["log"]:
            return self._argo_log(asked)
        if rest[-1:] in (["stop"], ["terminate"]):
            change = {"spec": {"shutdown": rest[-1].capitalize()}}
            return self._object(replace(asked, method="PATCH", path=f"{folder}/{rest[0]}", body=change), "workflows")
        body = asked.body["workflow"] if asked.method == "POST" else asked.body
        query = {"labelSelector": asked.query.get("listOptions.labelSelector", "")}
        with self.state.lock:
            return self._object(replace(asked, path="/".join([folder, *rest]), body=body, query=query), "workflows")

    def _argo_log(self, asked: Asked) -> None:
        text = self.state.logs.get(asked.query["podName"], b"")
        lines = [json.dumps({"result": {"content": line.decode(), "podName": "p"}}) for line in text.splitlines()]
        data = "".join(f"{line}\n" for line in lines).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _chunk(self, event: dict[str, Any]) -> None:
        super()._chunk({"result": event})

    def refuse(self, status: int, message: str, **fields: Any) -> None:
        code = {401: 16, 404: 5, 409: 6, 400: 3, 403: 7}.get(status, 13)
        self.reply({"code": code, "message": message or HTTPStatus(status).phrase}, status)
