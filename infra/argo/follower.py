"""Keeps up with one Workflow by watching it: through dropped connections, forgotten versions and server restarts."""

import threading
import time

from components.cluster.base import WatchExpired, WatchStream
from components.errors import Transient
from infra.argo.argo import Argo, Workflow
from infra.argo.view import is_over

_PAUSE_SECONDS = 0.5
_GIVE_UP_SECONDS = 600.0
_CLOSE_SECONDS = 2.0


class Follower:
    """The newest state of a Workflow, at no cost to who looks at it. Close it when done."""

    def __init__(self, argo: Argo, name: str) -> None:
        self._argo, self._name = argo, name
        self._workflow: Workflow | None = None
        self._error: Exception | None = None
        self._stream: WatchStream | None = None
        self._lock = threading.Lock()
        self._looked, self._closed = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._keep_up, name=f"watch of {name}", daemon=True)
        self._thread.start()

    def latest(self) -> Workflow | None:
        """The Workflow as last heard of; None when it is not there. Raises what ended the watch, if anything did."""
        self._looked.wait()
        with self._lock:
            if self._error is not None:
                raise self._error
            return self._workflow

    def close(self) -> None:
        """End the watch. A request that is under way is not waited for long: nobody reads its answer."""
        with self._lock:
            self._closed.set()
            if self._stream is not None:
                self._stream.close()
        self._thread.join(_CLOSE_SECONDS)

    def _keep_up(self) -> None:
        try:
            while not self._closed.is_set():
                found = self._read()
                self._note(found)
                if found is None or is_over(found):
                    return
                self._watch(str(found["metadata"]["resourceVersion"]))
        except Exception as error:  # a bug, ours or the server's, too: nobody shall take the past for the present
            with self._lock:
                self._error = error
        finally:
            self._looked.set()

    def _read(self) -> Workflow | None:
        """A server that answered before is waited for: it starts again, or the network comes back."""
        give_up_at = time.monotonic() + (_GIVE_UP_SECONDS if self._looked.is_set() else 0.0)
        while True:
            try:
                return self._argo.read(self._name)
            except Transient:
                if time.monotonic() > give_up_at or self._closed.wait(_PAUSE_SECONDS):
                    raise

    def _watch(self, version: str) -> None:
        stream = self._argo.watch(self._name, resource_version=version)
        with self._lock:
            self._stream = stream
            if self._closed.is_set():
                stream.close()
        try:
            for event in stream:
                self._note(None if event.type == "DELETED" else event.object)
                if event.type == "DELETED" or is_over(event.object):
                    return
        except WatchExpired:
            # Too much happened while nobody listened: read it again, and watch from there.
            self._closed.wait(_PAUSE_SECONDS)
        finally:
            stream.close()

    def _note(self, workflow: Workflow | None) -> None:
        with self._lock:
            self._workflow = workflow
        self._looked.set()
