"""Keeps rank 0's steps: a curve of bounded length for people, and the metrics that go into a checkpoint."""

from collections.abc import Mapping

from components.contracts.gang import StepView

MAX_VIEWS = 1000
_MAX_METRICS = 4096


class StepCurve:
    """Grows with every step; after a resume the steps that were lost are replaced by those made again."""

    def __init__(self) -> None:
        self._views: list[StepView] = []
        self._stride = 1
        self._metrics: dict[int, dict[str, float]] = {}
        self.last: StepView | None = None

    @property
    def views(self) -> tuple[StepView, ...]:
        return tuple(self._views)

    def add(self, view: StepView, metrics: Mapping[str, float]) -> None:
        while self._views and self._views[-1].step >= view.step:
            self._views.pop()
        for step in [step for step in reversed(self._metrics) if step >= view.step]:
            del self._metrics[step]
        if metrics:
            self._metrics[view.step] = dict(metrics)
            while len(self._metrics) > _MAX_METRICS:
                del self._metrics[next(iter(self._metrics))]
        self.last = view
        if view.step % self._stride == 0 or not self._views:
            self._views.append(view)
        if len(self._views) > MAX_VIEWS:
            self._stride *= 2
            self._views = self._views[::2]

    def metrics_at(self, step: int) -> dict[str, float]:
        """What rank 0 last reported at or before `step`; empty when nothing."""
        for known in reversed(self._metrics):
            if known <= step:
                return dict(self._metrics[known])
        return {}
