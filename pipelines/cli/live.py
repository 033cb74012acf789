"""The live view on a terminal: a table of the stages, the gang's progress, and what was said last."""

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from components.contracts.run_view import RunView
from components.report.text import plain_line
from pipelines.cli.follow import now
from pipelines.cli.passed_over import passed_over
from pipelines.cli.present import progress, stage_rows

_COLOURS = {
    "Waiting": "dim",
    "Running": "bold cyan",
    "Succeeded": "green",
    "Failed": "bold red",
    "Lost": "bold red",
    "Stopped": "bold yellow",
    "Skipped": "dim",
}


class LiveShow:
    """Redraws in place; what it shows last stays on the screen. Text is never read as markup."""

    def __init__(self) -> None:
        self._console = Console(highlight=False)
        self._said: list[str] = []
        self._view: RunView | None = None
        self._live = Live(
            console=self._console, get_renderable=self._render, refresh_per_second=4, redirect_stderr=False,
            redirect_stdout=False,
        )  # fmt: skip
        self._live.start()

    def update(self, view: RunView) -> None:
        self._view = view
        self._live.refresh()

    def say(self, text: str) -> None:
        self._said = [*self._said, text][-3:]
        self._live.refresh()

    def close(self) -> None:
        self._live.stop()

    def _render(self) -> Group:
        view = self._view
        if view is None:
            return Group(Text("starting", style="dim"))
        stages = stage_rows(view, now(), with_progress=False)
        grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), expand=True)
        for column, name in enumerate(("stage", "state", "tries", "time")):
            # On a narrow terminal only the last column gives way.
            width = max(len(name), *(len(row[column]) for row in stages)) if stages else len(name)
            grid.add_column(name, no_wrap=True, header_style="dim", min_width=width)
        grid.add_column("", no_wrap=True, overflow="ellipsis", ratio=1)
        for stage, state, attempts, seconds, detail in stages:
            grid.add_row(Text(stage), Text(state, style=_COLOURS.get(state, "")), attempts, seconds, Text(detail))
        title = Text(view.run, style="bold").append(f"  {view.state.value}", style="not bold")
        rows: list[Text | Table] = [title, grid]
        row = next((row for row in view.checkpoints if row.run == view.run and row.status != "retired"), None)
        where = progress(view)
        if where or row:
            text = Text(where)
            if row:
                text.append(f"{'; ' if where else ''}newest checkpoint: step {row.step} {row.status}")
            rows.append(text)
        rows += [Text(f"resumes from {source}: {text}", style="yellow") for source, text in passed_over(view)[-1:]]
        rows += [Text(plain_line(text), style="yellow") for text in self._said]
        return Group(*rows)
