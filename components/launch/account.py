"""The launcher's own account of the run, kept in storage: replaced at every change and at least every few seconds."""

from dataclasses import dataclass

from components.contracts.clock import now_text
from components.contracts.gang import GangState, LaunchState
from components.contracts.layout import launch_state_key
from components.contracts.lifecycle import RunState
from components.contracts.queue import QueueView
from components.errors import ArgosyError, ExitCode
from components.launch.failure_policy import Finish, has_started
from components.launch.history import History
from components.runtime.log import Log
from components.storage.base import ObjectStore

HEARTBEAT_SECONDS = 5.0


@dataclass(frozen=True)
class Standing:
    """What people are told now."""

    state: RunState
    reason: str = ""
    message: str = ""
    fix: str = ""
    exit_code: int | None = None
    queue: QueueView | None = None


class Account:
    """Writes LaunchState. A store that refuses is reported once and tried again: the account is for people."""

    def __init__(self, store: ObjectStore, *, run: str, backend: str, log: Log) -> None:
        self._store, self._run, self._backend, self._log = store, run, backend, log
        self._written: tuple[Standing, History] | None = None
        self._written_at = float("-inf")
        self._is_refused = False

    def tell(self, standing: Standing, history: History, *, now: float) -> None:
        """Write when something changed or the last writing is old. `now` is seconds on any steady clock."""
        is_news = self._written is None or (standing, history.generations) != (
            self._written[0], self._written[1].generations,
        )  # fmt: skip
        if not is_news and now - self._written_at < HEARTBEAT_SECONDS:
            return
        document = LaunchState(
            run=self._run, backend=self._backend, state=standing.state, reason=standing.reason,
            message=standing.message, fix=standing.fix, updated_at=now_text(), generations=history.generations,
            exit_code=standing.exit_code, queue=standing.queue,
        )  # fmt: skip
        self._written, self._written_at = (standing, history), now
        try:
            self._store.replace(launch_state_key(self._run), document.to_bytes())
            self._is_refused = False
        except ArgosyError as error:
            if not self._is_refused:
                self._log.warning("cannot write the launcher's state; going on", seen=str(error))
            self._is_refused = True


def standing_of(state: GangState | None, *, held_up: str = "") -> Standing:
    """While a generation lives, the gang's own state is the run's; before it has started, what holds it up."""
    if state is None or not has_started(state) or state.state.is_final:
        final = state is not None and state.state.is_final
        return Standing(RunState.RUNNING) if final else Standing(RunState.STARTING, message=held_up)
    return Standing(state.state, state.reason, state.message)


def standing_in_queue(queue: QueueView, *, was_preempted: bool) -> Standing:
    """While a generation waits to be admitted, for the first time or again."""
    return Standing(
        RunState.PREEMPTED if was_preempted else RunState.QUEUED, queue.reason, queue.message, queue=queue
    )  # fmt: skip


def standing_after(finish: Finish) -> Standing:
    """How the run stands when the launcher ends with `finish`."""
    state = {
        ExitCode.OK: RunState.SUCCEEDED,
        ExitCode.STOPPED: RunState.STOPPED,
        ExitCode.INTERRUPTED: RunState.RESTARTING,
        ExitCode.TRANSIENT: RunState.RESTARTING,
        ExitCode.PREEMPTED: RunState.PREEMPTED,
    }.get(finish.exit_code, RunState.FAILED)
    return Standing(state, finish.reason, finish.seen, finish.fix, int(finish.exit_code))
