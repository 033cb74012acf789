"""A live copy of some objects of the cluster: listed once, then kept by a watch, in a thread of its own."""

import threading
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from components.cluster.base import Cluster, Forbidden, NotServed, Object, WatchExpired, WatchStream
from components.cluster.kinds import Kind
from components.errors import ArgosyError, Transient
from components.runtime.log import Log

FIRST_LOOK_SECONDS = 60.0
"""How long whoever can do nothing without one waits for the first look."""

_PAUSE_SECONDS = 5.0
_EXPIRED_PAUSE_SECONDS = 0.5


class LiveObjects:
    """Objects of one kind that a selector takes. What was deleted stays known, marked as gone."""

    def __init__(
        self, cluster: Cluster, kind: Kind, *, on_change: Callable[[], None], log: Log, labels: str = "",
        fields: str = "", keep: Callable[[Object], Object | None] = lambda item: item,
        remembers: bool = True,
    ) -> None:  # fmt: skip
        """`keep` says what of an object is worth memory and a call of `on_change`, None: nothing. Both are called from
        the thread. `remembers`: whether `snapshot` shows what is gone.
        """
        self._remembers = remembers
        self._cluster, self._kind, self._labels, self._fields = cluster, kind, labels, fields
        self._on_change, self._log, self._keep = on_change, log, keep
        self._lock = threading.Lock()
        self._living: dict[str, Object] = {}
        self._gone: dict[str, Object] = {}
        self._is_listed = threading.Event()
        self._closing = threading.Event()
        self._stream: WatchStream | None = None
        self._refusal: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=f"watch-{kind.plural}", daemon=True)
        self._thread.start()

    def snapshot(self) -> tuple[Mapping[str, Object], Mapping[str, Object]]:
        """Living and gone objects, by uid."""
        with self._lock:
            return MappingProxyType(dict(self._living)), MappingProxyType(dict(self._gone))

    def living(self) -> list[Object]:
        """What there is now."""
        with self._lock:
            return list(self._living.values())

    def wait_until_listed(self, seconds: float) -> bool:
        """Whether the first look has been taken within `seconds`. Raises what kept it from being taken, for good."""
        is_listed = self._is_listed.wait(seconds)
        if self._refusal is not None:
            raise self._refusal
        return is_listed

    def require_sight(self) -> None:
        """Raises what ended the looking for good, if anything did: what `living` says is old then."""
        if self._refusal is not None:
            raise self._refusal

    @property
    def is_refused(self) -> bool:
        """Whether the looking has ended for good: this account may not look."""
        return self._refusal is not None

    def close(self) -> None:
        self._closing.set()
        with self._lock:
            stream = self._stream
        if stream is not None:
            stream.close()

    def _run(self) -> None:
        try:
            self._keep_up()
        except Exception as error:  # a bug, ours or the server's: nobody shall take the past for the present
            self._end(error)

    def _end(self, error: Exception) -> None:
        self._refusal = error
        self._is_listed.set()
        self._on_change()

    def _keep_up(self) -> None:
        while not self._closing.is_set():
            try:
                self._follow(self._list())
            except WatchExpired:  # or a server that forgets at once would get one list after the other
                self._closing.wait(_EXPIRED_PAUSE_SECONDS)
            except Transient as error:
                self._log.warning(f"cannot watch {self._kind.plural} now; going on with what was last seen",
                                  seen=str(error))  # fmt: skip
                self._closing.wait(_PAUSE_SECONDS)
            except (Forbidden, NotServed) as error:
                self._log.warning(f"cannot look at {self._kind.plural} any more", seen=str(error))
                self._end(error)
                return
            except ArgosyError as error:
                self._log.warning(f"the watch of {self._kind.plural} ended", seen=str(error))
                self._closing.wait(_PAUSE_SECONDS)

    def _list(self) -> str:
        listing = self._cluster.list(self._kind, labels=self._labels, fields=self._fields)
        found = {_uid(item): kept for item in listing.items if (kept := self._keep(item)) is not None}
        with self._lock:
            if self._remembers:
                self._gone.update({uid: self._living[uid] for uid in self._living.keys() - found.keys()})
            self._living = found
        self._is_listed.set()
        self._on_change()
        return listing.resource_version

    def _follow(self, version: str) -> None:
        stream = self._cluster.watch(self._kind, labels=self._labels, fields=self._fields, resource_version=version)
        with self._lock:
            self._stream = stream
        with stream:
            if self._closing.is_set():
                return
            for event in stream:
                kept = self._keep(event.object)
                if kept is not None and self._take(_uid(event.object), kept, is_gone=event.type == "DELETED"):
                    self._on_change()

    def _take(self, uid: str, item: Object, *, is_gone: bool) -> bool:
        """Whether that is news."""
        with self._lock:
            if is_gone:
                self._living.pop(uid, None)
                if self._remembers:
                    self._gone[uid] = item
                return True
            is_news = self._living.get(uid) != item
            self._living[uid] = item
            return is_news


def _uid(item: Mapping[str, Any]) -> str:
    return str(item["metadata"]["uid"])
