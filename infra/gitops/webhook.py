"""What a Git host sends after a push, sent by hand: to try a webhook, or from a host that has none of its own.

    WEBHOOK_SECRET=… python -m infra.gitops.webhook https://argo.example:2746 --namespace research --experiment gpt \
        --commit "$(git rev-parse HEAD)" --branch main

Signed as GitHub signs. Exit code 0 when the server took it, 78 when it refused, 75 when it did not answer.
"""

import argparse
import hashlib
import hmac
import json
import os
import ssl
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence

from components.contracts.names import is_commit
from components.errors import ExitCode

TIMEOUT_SECONDS = 60


def signature(body: bytes, secret: str) -> str:
    """The value of `X-Hub-Signature-256`. Argo 4 reads this header, not the older `X-Hub-Signature`."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def endpoint(server: str, *, namespace: str, experiment: str) -> str:
    """Where the Argo Server takes events for an experiment; what a repository's webhook is set to."""
    return f"{server.rstrip('/')}/api/v1/events/{namespace}/{experiment}"


def push(*, commit: str, branch: str) -> bytes:
    """The part of a push event that a rendered WorkflowEventBinding reads."""
    return json.dumps({"ref": f"refs/heads/{branch}", "after": commit}, separators=(",", ":")).encode()


def post(url: str, body: bytes, *, secret: str | None, ca_file: str = "") -> int:
    """The status of the answer. Without a secret nothing is signed. Raises URLError when there is none."""
    headers = {"Content-Type": "application/json", "X-GitHub-Event": "push"}
    if secret is not None:
        headers["X-Hub-Signature-256"] = signature(body, secret)
    context = ssl.create_default_context(cafile=ca_file or None)
    request = urllib.request.Request(url, data=body, headers=headers)
    try:
        with urllib.request.urlopen(request, context=context, timeout=TIMEOUT_SECONDS) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


_HINTS = {
    401: "the signature counts for no client of the namespace; compare it with argo-workflows-webhook-clients",
    403: "no Secret argo-workflows-webhook-clients in the namespace, or its account may not: infra/gitops/README.md",
    404: "this is not the Argo Server, or not its address",
    500: "a binding of the namespace failed, for example because the run of this commit exists already",
}


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m infra.gitops.webhook", allow_abbrev=False)
    parser.add_argument("server", help="address of the Argo Server, https://host:2746")
    parser.add_argument("--namespace", required=True)
    parser.add_argument("--experiment", required=True)
    parser.add_argument("--commit", required=True, help="full SHA")
    parser.add_argument("--branch", default="main")
    parser.add_argument("--ca-file", default=os.environ.get("ARGO_SERVER_CA", ""), help="PEM file that vouches for it")
    said = parser.parse_args(argv)
    secret = os.environ.get("WEBHOOK_SECRET")
    faults = [] if secret else ["WEBHOOK_SECRET is not set: the server takes signed posts only"]
    if not is_commit(said.commit):
        faults.append(f"--commit {said.commit!r} is no full SHA, so it would start nothing: 40 digits of 0-9 and a-f")
    if not said.server.startswith(("https://", "http://")):
        faults.append(f"{said.server!r} is no address; write https://host:2746")
    if faults:
        print("\n".join(faults), file=sys.stderr)
        return int(ExitCode.BAD_INPUT)
    url = endpoint(said.server, namespace=said.namespace, experiment=said.experiment)
    try:
        status = post(url, push(commit=said.commit, branch=said.branch), secret=secret, ca_file=said.ca_file)
    except (urllib.error.URLError, OSError) as error:
        print(f"{url}: no answer: {error}", file=sys.stderr)
        return int(ExitCode.TRANSIENT)
    hint = _HINTS.get(status, "")
    print(f"{url}: HTTP status {status}{f': {hint}' if hint else ''}", file=sys.stderr if hint else sys.stdout)
    return int(ExitCode.OK if status == 200 else ExitCode.BAD_INPUT)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
