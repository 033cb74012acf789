"""`doctor`: say whether this machine is fit, and what is missing."""

from pathlib import Path

import click

from pipelines.cli.options import described, description_options, output_option, print_json


@click.command()
@description_options
@output_option
def doctor(config: Path | None, recipe: str | None, overrides: tuple[str, ...], output: str) -> int:
    """Say whether this machine is fit, and what is missing.

    Looks at what the described run (by default the default recipe) would need here. Exit code 0 when the machine is
    fit, 81 when it is not.
    """
    source = described(config=config, recipe=recipe, overrides=overrides)
    from components.contracts.checks import CheckStatus
    from components.errors import ExitCode
    from infra.local.client import home
    from pipelines.config import default_storage
    from pipelines.machine import examine

    storage = source.config.storage or default_storage(home())
    report = examine(source.config, home=home(), storage=storage, workdir=source.workdir)
    is_fit = not report.blocking
    if output == "json":
        print_json({"fit": is_fit, "for": source.origin, **report.as_json()})
        return int(ExitCode.OK if is_fit else ExitCode.ENVIRONMENT_UNFIT)
    for result in report.results:
        click.echo(f"{result.status:<8}{result.name:<18}{result.measured}")
        if result.status is not CheckStatus.OK:
            click.echo(f"{'':<26}expected {result.expected} ({result.origin})")
            click.echo(f"{'':<26}{result.remedy}")
    if is_fit:
        click.echo(f"This machine is fit for {source.origin}. Start it: python pipelines/train.py submit")
        return int(ExitCode.OK)
    names = ", ".join(result.name for result in report.blocking)
    click.echo(f"This machine is not fit for {source.origin}: {names}")
    return int(ExitCode.ENVIRONMENT_UNFIT)
