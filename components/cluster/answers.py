"""What an unsuccessful answer of the API server means, and what to do about it."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from components.cluster.base import (
    AlreadyThere,
    Conflict,
    Forbidden,
    NamespaceMissing,
    NotServed,
    NotSignedIn,
    Refused,
    WatchExpired,
)  # fmt: skip
from components.cluster.kinds import Kind
from components.errors import ArgosyError, EnvironmentUnfit, Problem, Transient

MAX_WAIT_SECONDS = 10.0

_SPARE_US = (429, 503)
_NO_RIGHT = re.compile(r'User "([^"]*)" cannot (\S+) resource')
_LONGEST = 500
_ANONYMOUS = "system:anonymous"


@dataclass(frozen=True)
class Request:
    """What was asked, in words of permissions."""

    verb: str
    kind: Kind
    namespace: str = ""
    name: str = ""
    is_in_cluster: bool = False
    """Asked with the account of a pod, not of a person."""

    def __str__(self) -> str:
        place = f" in namespace {self.namespace}" if self.kind.is_namespaced else ""
        return f"{self.verb} {self.kind.resource}{f' {self.name}' if self.name else ''}{place}"


class ObjectMissing(ArgosyError):
    """There is no such object; the door turns it into None or False."""


class TryAgain(Transient):
    """Asking again may help."""

    def __init__(self, reason: str, seen: str, fix: str = "", *, wait_seconds: float = 0.0) -> None:
        """`wait_seconds`: how long the server wants to be left alone; it gets no more than MAX_WAIT_SECONDS."""
        super().__init__(reason, seen, fix)
        self.wait_seconds = min(wait_seconds, MAX_WAIT_SECONDS)


class Unsettled(TryAgain):
    """The answer did not arrive, or says that something broke: whether it was done, nobody here knows."""


class NotDone(TryAgain):
    """Nothing was done."""


def explain(request: Request, status: int, data: bytes, headers: Mapping[str, str]) -> ArgosyError:
    """The error that an answer with `status` ≥ 400 stands for."""
    answer = _status_of(data)
    message = _short(str(answer.get("message") or data[:300].decode("utf-8", "replace").strip()))
    message = message or f"HTTP status {status}"
    details = answer.get("details") or {}
    told = f"{request}: {message}"
    if status == 401:
        return _not_signed_in(request, message)
    if status == 403:
        return _forbidden(request, message)
    if status == 404:
        return _missing(request, message, details)
    if status == 409:
        if answer.get("reason") == "AlreadyExists":
            return AlreadyThere("AlreadyThere", told, "it was created by someone else, or by an earlier attempt")
        return Conflict("Conflict", told, "read it again and decide again")
    if status == 410:
        return WatchExpired("WatchExpired", told, "list again, then watch from there")
    if status == 413 or "request is too large" in message or "Too long: must have at most" in message:
        return Refused("TooLarge", told, "make the object smaller: fewer tasks, shorter texts")
    if status in (400, 405, 406, 415, 422):
        return Refused("Refused", told, "correct what is named", problems=_causes(request, details))
    if status in _SPARE_US:
        wait = _seconds(headers.get("Retry-After")) or _seconds(str(details.get("retryAfterSeconds", "")))
        meaning = NotDone if status == 429 else Unsettled
        return meaning("ServerBusy", told, "try again in a moment", wait_seconds=wait)
    if status >= 500:
        return Unsettled("ServerFailed", f"{told} (HTTP status {status})", "try again; ask whoever runs the cluster")
    return EnvironmentUnfit("Unexpected", f"{told} (HTTP status {status})", "is this the address of an API server?")


def _status_of(data: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(data)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}


def _not_signed_in(request: Request, message: str) -> ArgosyError:
    seen = f"the API server does not accept the credentials ({request}: {message})"
    if request.is_in_cluster:
        return EnvironmentUnfit("NotSignedIn", seen, "this pod's service account token is not valid; start it again")
    return NotSignedIn("NotSignedIn", seen, "they are wrong or have expired: sign in again, as you do for kubectl")


def _forbidden(request: Request, message: str) -> ArgosyError:
    if f'"{_ANONYMOUS}"' in message:
        return _not_signed_in(request, "no credentials were sent")
    refused = _NO_RIGHT.search(message)
    if refused or "cannot" in message:
        who = f'"{refused[1]}" ' if refused else ""
        role = "Role" if request.kind.is_namespaced else "ClusterRole"
        right = f'verb "{request.verb}" on "{request.kind.plural}" of API group "{request.kind.group}"'
        return Forbidden("Forbidden", f"{who}may not {request}", f"allow it: a {role} with {right}")
    if "being terminated" in message:
        return EnvironmentUnfit("NamespaceEnding", f"{request}: {message}", "use another namespace, or wait and retry")
    if "exceeded quota" in message or "must specify" in message:
        return Refused("QuotaExceeded", f"{request}: {message}", "ask for less, or have the quota raised")
    return Refused("NotAdmitted", f"{request}: {message}", "a policy of the cluster refuses this; ask who runs it")


def _missing(request: Request, message: str, details: Mapping[str, Any]) -> ArgosyError:
    if details.get("kind") == "namespaces" and request.kind.plural != "namespaces":
        fix = f"create it (`kubectl create namespace {request.namespace}`) or choose another"
        return NamespaceMissing("NamespaceMissing", f"there is no namespace {request.namespace}", fix)
    if details.get("name"):
        return ObjectMissing("ObjectMissing", f"{request}: {message}")
    what = f"{request.kind.kind} ({request.kind.api_version})"
    fix = f"install what defines {request.kind.resource}, in the version that has it, or choose another context"
    return NotServed("NotServed", f"the cluster knows no {what}", fix)


def _causes(request: Request, details: Mapping[str, Any]) -> list[Problem]:
    return [
        Problem(f"{request.kind.kind} {cause.get('field', '')}".strip(), _short(str(cause.get("message", ""))))
        for cause in details.get("causes") or ()
        if isinstance(cause, dict)
    ]


def _short(text: str) -> str:
    """Some answers repeat the whole object; what is wrong with it stands at their end."""
    return text if len(text) <= _LONGEST else f"{text[:80]} … {text[80 - _LONGEST :]}"


def _seconds(text: str | None) -> float:
    return float(text) if text and text.isdecimal() else 0.0
