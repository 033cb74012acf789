"""Threads of which exactly one runs: whoever holds the baton decides who goes on. The same seed, the same order."""

import threading
from collections.abc import Callable


class Worker:
    """A thread that lives through many schedules; starting one for each actor would take longer than the actor."""

    def __init__(self, crew: "Crew") -> None:
        self._crew = crew
        self._go = threading.Lock()
        self._go.acquire()
        self.task: Callable[[], Callable[[], None]] | None = None
        """What it does next; returns what is to be done with the baton then."""
        threading.Thread(target=self._work, daemon=True).start()

    def give_baton(self) -> None:
        self._go.release()

    def wait_for_baton(self) -> None:
        self._go.acquire()

    def _work(self) -> None:
        while True:
            self.wait_for_baton()
            assert self.task is not None
            pass_on = self.task()
            self.task = None
            self._crew.idle.append(self)
            pass_on()


class Crew:
    """The workers, and the thread that waits for them."""

    def __init__(self) -> None:
        self.idle: list[Worker] = []
        self._done = threading.Semaphore(0)

    def hire(self) -> Worker:
        return self.idle.pop() if self.idle else Worker(self)

    def wait_until_done(self) -> None:
        self._done.acquire()

    def done(self) -> None:
        self._done.release()
