"""Output of a run's stage pods as files, so that logs of a cluster are read like those of this machine."""

import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from components.errors import ArgosyError, EnvironmentUnfit, ExitCode
from components.report.logs import LogFile, PartlyRefused
from infra.argo.view import PodOfTask, pods_of

if TYPE_CHECKING:
    from components.cluster.base import LogStream
    from infra.argo.argo import Argo, Workflow

_LOOK_SECONDS = 2.0
_LAST_LINES_SECONDS = 5.0
_AT_ONCE = 8
_OF_ARGO = re.compile(rb"time=\S+ level=\w+ msg=.* argo=true|Error: exit status \d+$")
"""What Argo's own program, which starts the stage in its container, says there."""


class PodLogs:
    """Fetches what pods that have ended wrote, once; with `follow`, also what running ones write, as they do."""

    def __init__(self, argo: "Argo", workflows: "Callable[[], Iterable[Workflow]]", *, follow: bool) -> None:
        self._argo, self._workflows, self._follow = argo, workflows, follow
        self._folder = tempfile.TemporaryDirectory(prefix="argosy-logs-")
        self._files: dict[str, LogFile] = {}
        self._streams: dict[str, LogStream] = {}
        self._begun: set[str] = set()
        self._refused: dict[str, ArgosyError] = {}
        self._has_read = False
        """A line, of any pod."""
        self._silent: str = ""
        """A task that succeeded and whose pod shows nothing: each says something."""
        self._threads: list[threading.Thread] = []
        self._closed = threading.Event()
        self._looked_at: float | None = None
        self._lock = threading.Lock()

    def files(self, *, final: bool) -> list[LogFile]:
        """One file a pod, oldest first. A pod whose log is gone has none.

        Raises what the place answers, PartlyRefused when it refuses a pod's log; such a one is asked for again at the
        next look. `final`: the run is over, so what is still on its way is waited for.
        """
        now = time.monotonic()
        is_due = self._looked_at is None or now - self._looked_at > _LOOK_SECONDS or final
        if self._looked_at is None or (self._follow and is_due):
            self._looked_at = now
            self._fetch_new()
        for thread in self._threads if final else ():
            thread.join(_LAST_LINES_SECONDS)
        found = sorted(self._files.copy().values(), key=lambda file: file.started_at)
        if self._refused:
            raise PartlyRefused(found, next(iter(self._refused.copy().values())))
        if self._silent and not self._has_read and self._argo.target == "argo-server":
            # Which keeps to itself that the API server refused it the log of a pod.
            seen = f"the Argo Server shows no line of any pod, not even of {self._silent}, which succeeded"
            fix = (
                'allow it, unless these pods are gone: a Role with verb "get" on "pods/log" of API group "" for the '
                "token's account"
            )
            raise PartlyRefused(found, EnvironmentUnfit("NoPodLogs", seen, fix))
        return found

    def close(self) -> None:
        """Stop following, and remove the files."""
        with self._lock:
            self._closed.set()
            for stream in self._streams.values():
                stream.close()
        self._folder.cleanup()

    def _fetch_new(self) -> None:
        new = [
            (str(workflow["metadata"]["name"]), pod)
            for workflow in self._workflows()
            for pod in pods_of(workflow)
            if pod.pod not in self._begun or pod.pod in self._refused
        ]
        self._refused.clear()
        self._begun.update(pod.pod for _, pod in new)
        ended = [item for item in new if item[1].is_over or not self._follow]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(lambda item: self._fetch(*item), ended))
        for workflow, pod in new:
            if not pod.is_over and self._follow:
                thread = threading.Thread(target=self._keep_up, args=(workflow, pod), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _fetch(self, workflow: str, pod: PodOfTask) -> None:
        try:
            stream = self._argo.logs(workflow, pod.pod, follow=False)
        except ArgosyError as error:
            self._refused[pod.pod] = error
            return
        if stream is not None:
            self._write(pod, stream)
            if pod.has_succeeded and not self._has_read:
                self._silent = pod.task

    def _keep_up(self, workflow: str, pod: PodOfTask) -> None:
        # A connection that broke is made anew: the file then starts over, and its reader goes on behind what it has
        # read already. So does one that was made before the container had started.
        while not self._closed.is_set():
            try:
                stream = self._argo.logs(workflow, pod.pod, follow=True)
                if stream is not None:
                    with self._lock:
                        self._streams[pod.pod] = stream
                        if self._closed.is_set():
                            stream.close()
                    self._write(pod, stream)
                    return
            except ArgosyError as error:
                if error.exit_code is not ExitCode.TRANSIENT:
                    self._refused[pod.pod] = error
                    return
            except OSError:
                pass
            self._closed.wait(_LOOK_SECONDS)

    def _write(self, pod: PodOfTask, stream: "LogStream") -> None:
        path = Path(self._folder.name) / pod.pod
        with stream, path.open("wb", buffering=0) as file:
            self._files[pod.pod] = LogFile(pod.task, path, pod.started_at)
            for line in stream:
                self._has_read = True
                if not _OF_ARGO.match(line):
                    file.write(line + b"\n")
