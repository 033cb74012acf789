"""Follows a run to its end: shows what happens, turns Ctrl-C into a stop and a second Ctrl-C into a kill."""

import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

import click

from components.contracts.run_view import RunView
from components.diagnosis.diagnose import diagnose
from components.errors import ExitCode, Interrupted
from pipelines.cli.changes import changes, is_worth_telling
from pipelines.cli.options import print_json
from pipelines.cli.present import last_words, progress, repeat_command, view_json
from pipelines.cli.streams import discard_output

if TYPE_CHECKING:
    from types import FrameType

    from pipelines.cli.cluster_run import ClusterRun
    from pipelines.cli.local_run import LocalRun

    Run = LocalRun | ClusterRun

_LOOK_SECONDS = 0.5
_LEAVING_LOOK_SECONDS = 0.1
_LEAVE_SECONDS = 10.0
"""How long an engine may take to go after its last word."""
_PATIENCE = 3
"""Ctrl-Cs that may wait to be served."""
_STOPPING = "stopping: the ranks may write a checkpoint; Ctrl-C again kills them"
_KILLING = "killing every process of the run"


class Show(Protocol):
    """Where people see a run."""

    def update(self, view: RunView) -> None: ...
    def say(self, text: str) -> None: ...
    def close(self) -> None: ...


class SilentShow:
    """For programs: nothing but what they must know, on stderr."""

    def update(self, view: RunView) -> None:
        pass

    def say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        pass


class PlainShow:
    """One line for each thing that happens; no control characters. What is `known` already is not told again."""

    def __init__(self, known: RunView | None = None) -> None:
        self._last = known
        self._told = known

    def update(self, view: RunView) -> None:
        lines = changes(self._last, view)
        if is_worth_telling(self._told, view):
            lines.append(progress(view))
            self._told = view
        self._last = view
        for line in lines:
            self.say(line)

    def say(self, text: str) -> None:
        print(f"{datetime.now().astimezone():%H:%M:%S} {text}", flush=True)

    def close(self) -> None:
        pass


class FollowedRun(Protocol):
    """A run that can be looked at and stopped."""

    def view(self) -> RunView: ...
    def engine_alive(self) -> bool: ...
    def stop(self, *, force: bool) -> None: ...


def choose_show(*, output: str, known: RunView | None = None) -> Show:
    """A live table on a terminal, plain lines elsewhere, nothing for programs."""
    if output == "json":
        return SilentShow()
    if sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        from pipelines.cli.live import LiveShow

        return LiveShow()
    return PlainShow(known)


def follow(run: FollowedRun, show: Show, *, start: Callable[[], object] | None = None) -> RunView:
    """Start the engine (`start`) and look until the run is over; the last look is the result.

    Ctrl-C asks for a graceful stop, a second one kills; a third gives up waiting. SIGTERM, SIGHUP and a reader that
    left end only this process: the run goes on, and Interrupted says how to reach it.
    """
    with _signals() as wait_for_signal:
        try:
            if start is not None:
                start()
            return _look_until_over(run, show, wait_for_signal)
        except BrokenPipeError as error:
            discard_output()
            raise _following_ended(run.view().run, "nobody reads this output any more") from error
        finally:
            show.close()


def follow_to_end(run: "Run", output: str, *, start: Callable[[], object], known: RunView | None = None) -> int:
    """Follow a run that `start` starts, say how it ended, and return its exit code."""
    view = follow(run, choose_show(output=output, known=known), start=start)
    diagnosis = diagnose(view, now())
    if output == "json":
        print_json(view_json(view, diagnosis))
    else:
        _echo_last("\n".join(last_words(view, diagnosis, repeat_command(run.argv))))
    return view.exit_code if view.exit_code is not None else int(ExitCode.INTERRUPTED)


def _following_ended(run: str, why: str) -> Interrupted:
    return Interrupted(
        "FollowingEnded", f"{why}; run {run} goes on", f"see it with `status {run}`, end it with `stop {run}`"
    )


def announce(text: str, output: str) -> None:
    """Say what is about to start, to people. Raises Interrupted when nobody reads it: then nothing should start."""
    try:
        if output == "text":
            click.echo(text)
    except BrokenPipeError as error:
        discard_output()
        raise Interrupted("NotStarted", "nobody reads this output", "use --detach to start and leave") from error


def _echo_last(text: str) -> None:
    """Print what nothing follows: the exit code still tells how the run ended when nobody reads it."""
    try:
        click.echo(text)
    except BrokenPipeError:
        discard_output()


def detached(run: "Run", output: str, *, start: Callable[[], object]) -> int:
    """Start a run and leave it alone."""
    start()
    if output == "json":
        print_json({"run": run.name, "target": run.target_name, "storage": run.storage})
    else:
        click.echo(f"{run.name} runs by itself; `status {run.name}` shows how far it is, `stop {run.name}` stops it")
    return 0


def _look_until_over(run: FollowedRun, show: Show, wait_for_signal: Callable[[float], list[int]]) -> RunView:
    num_interrupts, final_since, has_begun = 0, None, False
    while True:
        # Asked before looking: what an engine wrote before it ended is then seen. Only its end is the run's end; a
        # resumed run looks ended until its engine has written the first event.
        is_alive = run.engine_alive()
        view = run.view()
        is_final = view.engine is not None and view.engine.is_over
        has_begun = has_begun or not is_final
        if has_begun or not is_alive:
            show.update(view)
        final_since = (final_since or time.monotonic()) if is_final else None
        if not is_alive or (final_since and time.monotonic() - final_since > _LEAVE_SECONDS):
            return view
        for number in wait_for_signal(_LEAVING_LOOK_SECONDS if is_final else _LOOK_SECONDS):
            if number != signal.SIGINT:
                raise _following_ended(view.run, "this process was told to end")
            num_interrupts += 1
            if num_interrupts > 2:
                raise Interrupted("FollowingEnded", f"no longer waiting for run {view.run}", f"see `status {view.run}`")
            run.stop(force=num_interrupts == 2)
            show.say(_STOPPING if num_interrupts == 1 else _KILLING)


@contextmanager
def _signals() -> Iterator[Callable[[float], list[int]]]:
    """Signals become bytes in a pipe, so that waiting ends the moment one arrives and none is lost."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    os.set_blocking(reader, False)
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    # Ignored signals stay ignored: a background job's SIGINT, a nohup's SIGHUP.
    caught = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    unserved: list[int] = []

    def note(number: int, frame: "FrameType | None") -> None:
        # The pipe has it. Somebody who presses on and on while a look at a dead storage hangs must get out, though.
        unserved.append(number)
        if unserved.count(signal.SIGINT) > _PATIENCE:
            raise KeyboardInterrupt

    before = {number: signal.signal(number, note) for number in caught}
    wakeup = signal.set_wakeup_fd(writer)

    def wait(seconds: float) -> list[int]:
        select.select([reader], [], [], seconds)
        unserved.clear()
        try:
            return [number for number in os.read(reader, 64) if number in caught]
        except BlockingIOError:
            return []

    try:
        yield wait
    finally:
        signal.set_wakeup_fd(wakeup)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(reader)
        os.close(writer)


def now() -> datetime:
    """The present moment, for what is shown."""
    return datetime.now(UTC)
