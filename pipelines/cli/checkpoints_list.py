"""`checkpoints list`: a table of what there is and why it is kept."""

import click

from components.contracts.run_view import CheckpointRow, ClaimView
from components.contracts.units import format_size
from components.report.run_view import read_checkpoints
from components.report.text import plain_line
from pipelines.cli.checkpoints_place import Place, place_options
from pipelines.cli.checkpoints_policy import kept_reasons
from pipelines.cli.options import output_option, print_json
from pipelines.cli.present import local_time, table


@click.command("list")
@place_options
@click.option("--all", "all_", is_flag=True, help="Also those that were retired.")
@output_option
def list_(place: Place, all_: bool, output: str) -> None:
    """List an experiment's checkpoints, newest first.

    Without options: those of the latest run's experiment.
    """
    rows, claim = read_checkpoints(place.ledger)
    shown = [row for row in rows if all_ or row.status != "retired"]
    reasons = kept_reasons(place, place.ledger.state())
    if output == "json":
        print_json(
            {
                "experiment": place.experiment, "model_version": place.model_version, "storage": place.store.uri,
                "running": claim.as_json() if claim else None,
                "checkpoints": [{**row.as_json(), "kept_because": reasons.get(row.checkpoint, "")} for row in shown],
            }
        )  # fmt: skip
        return
    click.echo("\n".join(_lines(place, shown, len(rows) - len(shown), reasons, claim)))


def _lines(
    place: Place, rows: list[CheckpointRow], num_retired: int, reasons: dict[str, str], claim: ClaimView | None
) -> list[str]:
    where = f"{place.experiment} {place.model_version} in {place.store.uri}"
    if not rows:
        lines = [f"no checkpoints of {where}"]
    else:
        cells = [("CHECKPOINT", "STEP", "TERM", "STATUS", "METRICS", "SIZE", "RUN", "KEPT BECAUSE")]
        cells += [
            (
                row.checkpoint, str(row.step), str(row.term), status_text(row.status, row.level),
                metrics_text(row.metrics), format_size(row.size_bytes), row.run, _reason(row, reasons),
            )
            for row in rows
        ]  # fmt: skip
        lines = [where, "", *table(cells)]
    if num_retired:
        lines.append(f"and {num_retired} retired; --all shows them")
    if claim:
        lines.append(f"being trained by {claim.run} ({claim.owner}) since {local_time(claim.since)}")
    return lines


def status_text(status: str, level: str | None) -> str:
    """`verified (tensors)`."""
    return f"verified ({level})" if status == "verified" else status


def metrics_text(metrics: "dict[str, float]") -> str:
    """`accuracy 0.5, loss 2.41`."""
    return ", ".join(f"{plain_line(name)} {value:.4g}" for name, value in sorted(metrics.items()))


def _reason(row: CheckpointRow, reasons: dict[str, str]) -> str:
    text = plain_line(reasons.get(row.checkpoint, "") or row.reason)
    is_told = not row.pinned or text.startswith("pinned")
    return text if is_told else ", ".join(part for part in ("pinned", text) if part)
