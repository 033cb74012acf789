"""What an agent does differently when its guard is in another container of a pod: how it begins and how it leaves.

The agent is a sidecar: when its process ends before the program's container does, it is started anew. So it hands its
verdict to the guard, whose exit code is the pod's, and stays until the kubelet sends it away.
"""

import json
import os
import signal
import socket
from pathlib import Path

from components.errors import PeerLost
from components.guard.guard import VERDICT

_STAY_SECONDS = 300.0
"""For the program's container to end, and the kubelet to notice."""


class PodSide:
    """One agent's end of its pod."""

    def __init__(self, guard_socket: Path, workdir: Path) -> None:
        self.guard_socket = guard_socket
        self.connection: socket.socket | None = None
        """To the guard, once it is there."""
        self.told_to_go = False
        """A SIGTERM came."""
        self.words = ""
        """How the gang ended, in a sentence."""
        self._mark = workdir / "agent-was-here"

    def begin(self) -> None:
        """Raises PeerLost when an earlier agent of this pod is gone: its gang goes on without it or not at all."""
        try:
            self._mark.touch(exist_ok=False)
        except FileExistsError:
            raise PeerLost("AgentRestarted", "the agent before was killed; its ranks are gone with it") from None

    def leave(self, exit_code: int) -> None:
        """Hand over the verdict, unless there is one, let the guard end its container, and wait to be sent away."""
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        verdict = self.guard_socket.with_name(VERDICT)
        if not verdict.exists():
            temporary = verdict.with_suffix(".part")
            temporary.write_text(json.dumps({"exit_code": exit_code, "message": self.words}), encoding="utf-8")
            os.replace(temporary, verdict)
        self.hang_up()
        if not self.told_to_go:
            signal.sigtimedwait({signal.SIGTERM}, _STAY_SECONDS)

    def hang_up(self) -> None:
        """Close the connection for both ends: the guard kills whatever it has and leaves."""
        if self.connection is not None:
            try:
                self.connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                return  # the guard was faster
