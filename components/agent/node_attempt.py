"""One attempt as one node sees it: output, progress and staged steps of its ranks."""

import threading
from collections.abc import Iterable
from pathlib import Path

from components.agent.messages import Progressed, RankExited, Start
from components.agent.output import RankOutput
from components.agent.progress import ProgressTail
from components.agent.ranks import AttemptPaths, node_processes, node_ranks
from components.agent.run_context import RunContext
from components.agent.staging import Staging, ready_marks
from components.contracts.gang import StepView
from components.contracts.layout import rank_stream


class NodeAttempt:
    """Lives from START to the next one."""

    def __init__(self, context: RunContext, start: Start) -> None:
        spec = context.spec
        self.number, self.term = start.attempt, start.term
        self.paths = AttemptPaths(context.workdir / f"attempt-{start.attempt}")
        self.processes = node_processes(spec, context.node_rank)
        ranks = node_ranks(spec, context.node_rank)
        marks = ready_marks(writers=spec.checkpoint.writers, ranks=ranks) if spec.checkpoint else []
        self.staging = Staging(self.paths.checkpoints, marks)
        self.is_launched = False
        """Whether the guard was told to start its ranks."""
        self.called_off = threading.Event()
        """Set when they must not be started any more."""
        self.unpublished: list[tuple[int, Path]] = []
        self.reports_steps = False
        self.cpu_seconds = 0.0
        self._outputs = {process: self._output(context, process) for process in self.processes}
        self._tails = dict(_progress_tails(self.paths, self.processes, ranks))
        self._steps: dict[int, int] = {}
        self._reported_activity = -1.0

    def _output(self, context: RunContext, process: int) -> RankOutput:
        name = rank_stream(node_rank=context.node_rank, rank=process, attempt=self.number)
        fields = {**context.log.fields, "rank": process, "attempt": self.number}
        return RankOutput(fields=fields, write=context.streams.get(name).write)

    def on_output(self, process: int, stream: str, data: bytes, *, at: str) -> None:
        self._outputs[process].feed(stream, data, at=at)

    def end_output(self, *, at: str) -> None:
        for output in self._outputs.values():
            output.end(at=at)

    def last_lines(self, process: int) -> tuple[str, ...]:
        return self._outputs[process].last_lines()

    def poll_progress(self, *, at: str) -> Progressed | None:
        """What is new since the last call, or None."""
        steps: dict[int, int] = {}
        views: list[StepView] = []
        metrics: dict[int, dict[str, float]] = {}
        total_steps = None
        for (_, rank), tail in self._tails.items():
            for line in tail.poll():
                self.reports_steps, total_steps = True, line.total_steps or total_steps
                if line.step is None:
                    continue
                steps[rank] = line.step
                if rank == 0:
                    views.append(line.view(at))
                    metrics[line.step] = line.metrics
        activity = self.cpu_seconds + sum(output.num_bytes for output in self._outputs.values())
        if not steps and total_steps is None and (self.reports_steps or activity == self._reported_activity):
            return None
        self._reported_activity = activity
        return Progressed(
            attempt=self.number, reports_steps=self.reports_steps, steps=steps, views=tuple(views), metrics=metrics,
            total_steps=total_steps, activity=activity,
        )  # fmt: skip


def how_it_ended(exited: RankExited) -> str:
    """One sentence."""
    told = " after it was told to" if exited.ended_by_us else ""
    if exited.error is not None:
        return exited.error
    if exited.signal is not None:
        return f"rank {exited.rank} was ended by {exited.signal}{told}"
    return f"rank {exited.rank} exited with code {exited.exit_code}{told}"


def _progress_tails(
    paths: AttemptPaths, processes: list[int], ranks: Iterable[int]
) -> Iterable[tuple[tuple[str, int], ProgressTail]]:
    """Every file a rank of this node may report in: its process's, or that name with its own rank behind."""
    for process in processes:
        file = paths.progress_file(process)
        yield ("", process), ProgressTail(file)
    if len(processes) < len(list(ranks)):
        for rank in ranks:
            file = paths.progress_file(processes[0])
            yield (".", rank), ProgressTail(file.with_name(f"{file.name}.{rank}"))
