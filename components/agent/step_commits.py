"""Follows READY steps of one gang: receipts from every writer, commit in order, verification, and what is given up."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from components.agent.events import Action, CommitStep, Moment, Retain, Tell, VerifyEnded, VerifyStep
from components.agent.messages import Discard, Trouble
from components.agent.step_curve import StepCurve
from components.contracts.checkpoint import VerifyLevel
from components.contracts.gang import CheckpointView
from components.contracts.names import checkpoint_id
from components.errors import ExitCode

_Waits = Literal["receipts", "commit", "verify"]


@dataclass
class _Step:
    term: int
    step: int
    parent: str | None
    waits_for: _Waits = "receipts"
    receipts: set[int] = field(default_factory=set)
    is_running: bool = False
    """Its commit, or its verification, is under way."""

    @property
    def checkpoint(self) -> str:
        return checkpoint_id(step=self.step, term=self.term)


class StepCommits:
    """All steps from first receipt to the end of verification. Commits go in order; verifications newest first, since
    that is what a restart wants, and one that falls behind must not hold it up.
    """

    def __init__(self, *, writers: Iterable[int], curve: StepCurve) -> None:
        """`writers`: the node ranks whose receipts a step needs."""
        self._writers, self._curve = frozenset(writers), curve
        self._steps: list[_Step] = []
        self._closed: set[tuple[int, int]] = set()
        """Term and step of those complete or abandoned."""
        self.is_retaining = False
        """The retention policy is being applied, which nothing but the end of the run has to wait for."""
        self._verified = (0, -1)
        """Term and step of the newest verified one."""
        self._kept_back: list[tuple[int, int]] = []
        """Abandoned, with their staged files still there."""
        self._views: dict[str, CheckpointView] = {}
        self.trouble: Trouble | None = None
        """Why the newest READY step is not a checkpoint; None when it is."""

    @property
    def is_idle(self) -> bool:
        """Everything complete is committed, and nothing that waits for verification is newer than what is verified."""
        return not any(
            item.waits_for == "commit" or (item.waits_for == "verify" and (item.term, item.step) > self._verified)
            for item in self._steps
        )

    @property
    def views(self) -> tuple[CheckpointView, ...]:
        return tuple(self._views.values())

    def on_published(self, *, node_rank: int, term: int, step: int, parent: str | None, now: Moment) -> list[Action]:
        if (term, step) in self._closed:
            return []
        item = self._get(term, step)
        if item is None:
            item = _Step(term, step, parent)
            self._steps.append(item)
            self._steps.sort(key=lambda other: (other.term, other.step))
        item.receipts.add(node_rank)
        if not item.receipts >= self._writers:
            return []
        # Nodes publish in order, so receipts that are missing for an earlier step will not come any more.
        late = [other for other in self._steps if other.waits_for == "receipts" and other.step < step]
        actions = [action for other in late for action in self._abandon(other, "a later step was complete first", now)]
        item.waits_for = "commit"
        self._closed.add((term, step))
        return actions + self._next()

    def on_publish_failed(self, *, node_rank: int, term: int, step: int, trouble: Trouble, now: Moment) -> list[Action]:
        if (term, step) in self._closed:
            return []
        item = self._get(term, step) or _Step(term, step, None)
        self.trouble = trouble
        return self._abandon(item, f"node {node_rank}: {trouble.message}", now)

    def on_committed(self, *, term: int, step: int, now: Moment) -> list[Action]:
        item = self._get(term, step)
        assert item is not None
        item.waits_for, item.is_running, self.trouble = "verify", False, None
        self._show(item, "committed", now)
        safe, self._kept_back = [*self._kept_back, (term, step)], []
        return [*(Tell(None, Discard(term=term, step=step)) for term, step in safe), *self._next()]

    def on_commit_failed(self, *, term: int, step: int, trouble: Trouble, now: Moment) -> list[Action]:
        item = self._get(term, step)
        assert item is not None
        self.trouble = trouble
        return self._abandon(item, trouble.message, now) + self._next()

    def on_verified(self, ended: VerifyEnded, now: Moment) -> list[Action]:
        checkpoint, exit_code, message = ended.checkpoint, ended.exit_code, ended.message
        item = next(item for item in self._steps if item.checkpoint == checkpoint)
        self._steps.remove(item)
        if exit_code == 0:
            self._verified = max(self._verified, (item.term, item.step))
            self._show(item, "verified", now, level=ended.level)
        elif exit_code == ExitCode.VERIFICATION_FAILED:
            self._show(item, "quarantined", now, reason=message)
        else:
            self._show(item, "committed", now, reason=f"verification did not run: {message}")
            return self._next()
        self.is_retaining = True
        return [Retain(after=checkpoint)]

    def on_retained(self, *, retired: Iterable[str], now: Moment) -> list[Action]:
        self.is_retaining = False
        for gone in retired:
            if gone in self._views:
                self._views[gone] = self._views[gone].model_copy(update={"state": "retired", "at": now.text})
        return self._next()

    def abandon_incomplete(self, now: Moment) -> list[Action]:
        """The attempt is over: receipts that have not come will not."""
        incomplete = [item for item in self._steps if item.waits_for == "receipts"]
        return [action for item in incomplete for action in self._abandon(item, "the attempt ended first", now)]

    def _next(self) -> list[Action]:
        actions: list[Action] = []
        if not any(item.waits_for == "commit" and item.is_running for item in self._steps):
            item = next((item for item in self._steps if item.waits_for == "commit"), None)
            if item is not None:
                item.is_running = True
                metrics = self._curve.metrics_at(item.step)
                actions.append(CommitStep(item.term, item.step, item.parent, metrics))
        if not self.is_retaining and not any(item.waits_for == "verify" and item.is_running for item in self._steps):
            item = next((item for item in reversed(self._steps) if item.waits_for == "verify"), None)
            if item is not None:
                item.is_running = True
                actions.append(VerifyStep(item.checkpoint))
        return actions

    def _abandon(self, item: _Step, why: str, now: Moment) -> list[Action]:
        """The staged files of the newest abandoned step stay until another one is safe."""
        if item in self._steps:
            self._steps.remove(item)
        self._show(item, "abandoned", now, reason=why)
        self._closed.add((item.term, item.step))
        stale, self._kept_back = self._kept_back, [(item.term, item.step)]
        return [
            Tell(None, Discard(term=term, step=step)) for term, step in stale if (term, step) != (item.term, item.step)
        ]

    def _show(
        self, item: _Step, state: Literal["committed", "verified", "quarantined", "abandoned"], now: Moment, *,
        level: VerifyLevel | None = None, reason: str = "",
    ) -> None:  # fmt: skip
        self._views[item.checkpoint] = CheckpointView(
            checkpoint=item.checkpoint, step=item.step, state=state, level=level, reason=reason, at=now.text
        )

    def _get(self, term: int, step: int) -> _Step | None:
        return next((item for item in self._steps if (item.term, item.step) == (term, step)), None)
