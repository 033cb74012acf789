"""The Kubernetes API behind one protocol: plain JSON objects, synchronous, usable from several threads at once."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, Self

from components.cluster.kinds import Kind
from components.errors import ArgosyError, BadInput, EnvironmentUnfit, ExitCode

Object = dict[str, Any]
"""An object of the API, as its JSON says."""

Propagation = Literal["Background", "Foreground", "Orphan"]

WRITER = "argosy"
"""Field manager of what we write."""

REQUEST_ANNOTATION = "argosy.dev/request"
"""Names the request that created an object, so that a lost answer does not make it a stranger's."""


class AlreadyThere(ArgosyError):
    """An object of that name exists, and this call did not create it."""

    exit_code = ExitCode.BAD_INPUT


class Conflict(ArgosyError):
    """The object changed since it was read; nothing was written. Read it again and decide again."""

    exit_code = ExitCode.TRANSIENT


class WatchExpired(ArgosyError):
    """The server no longer has the history from that resource version on: list again, then watch from there."""

    exit_code = ExitCode.TRANSIENT


class Forbidden(EnvironmentUnfit):
    """This account may not do that; `seen` names verb, resource and namespace."""


class NotSignedIn(BadInput):
    """The API server does not know who asks: no credentials, or expired ones."""


class NotServed(EnvironmentUnfit):
    """The cluster does not know this kind of object: its definition (CRD) is missing, or of another version."""


class NamespaceMissing(BadInput):
    """There is no such namespace."""


class Refused(BadInput):
    """The API server, a quota or an admission policy does not take the object; `problems` has every fault named."""


@dataclass(frozen=True)
class Listing:
    """Objects at one moment, and the resource version to watch from."""

    items: Sequence[Object]
    resource_version: str


@dataclass(frozen=True)
class WatchEvent:
    """One change."""

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    object: Object


class WatchStream(Protocol):
    """Changes as they happen. Close it, from any thread, to end the iteration; use it with `with`."""

    @property
    def resource_version(self) -> str:
        """Where a later watch can go on: moves with events and with the server's bookmarks."""

    def __iter__(self) -> Iterator[WatchEvent]: ...
    def __next__(self) -> WatchEvent: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...


class LogStream(Protocol):
    """Lines of a container's log, without their newline. Close it, from any thread, to end the iteration."""

    def __iter__(self) -> Iterator[bytes]: ...
    def __next__(self) -> bytes: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...


class Cluster(Protocol):
    """One namespace of a cluster.

    Every method raises Transient when the server does not answer or is overloaded, Forbidden, NotSignedIn, NotServed
    and Refused as they say. Reads, lists, deletes and patches are tried again before that; a create whose answer was
    lost is looked up, never repeated blindly.
    """

    @property
    def namespace(self) -> str: ...

    @property
    def seconds_since_away(self) -> float:
        """Since the server last did not answer us; infinite when it always did."""

    def create(self, kind: Kind, body: Mapping[str, Any]) -> Object:
        """Create the named object. Raises AlreadyThere for one this call did not create, NamespaceMissing."""

    def read(self, kind: Kind, name: str) -> Object | None:
        """The object, or None when there is none."""

    def list(self, kind: Kind, *, labels: str = "", fields: str = "") -> Listing:
        """Objects that both selectors take, fetched in pages."""

    def delete(
        self, kind: Kind, name: str, *, grace_seconds: int | None = None, propagation: Propagation = "Background",
        uid: str | None = None,
    ) -> bool:  # fmt: skip
        """Ask for the object's end; False when it is already gone, or when the name is another `uid`'s by now."""

    def patch(self, kind: Kind, name: str, body: Object) -> Object | None:
        """Merge `body` into the object and return it; None when there is none. Conflict when that names an old one."""

    def watch(
        self, kind: Kind, *, labels: str = "", fields: str = "", resource_version: str = "",
        seconds: float | None = None,
    ) -> WatchStream:  # fmt: skip
        """Changes after `resource_version`; without it first an ADDED for everything there is.

        Dropped connections are made again from where they broke. Ends when closed, or after `seconds`. The iteration
        raises WatchExpired when the history is gone, and Transient when the server does not answer for minutes.
        """

    def logs(self, pod: str, container: str, *, follow: bool = False) -> LogStream | None:
        """A container's log; None when there is no such pod or container, or it has not started.

        The iteration raises Transient when the connection breaks.
        """

    def serves(self, kind: Kind) -> bool:
        """Whether the cluster knows this kind in this version."""
