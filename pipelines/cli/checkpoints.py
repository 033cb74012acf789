"""`checkpoints`: what the ledger of an experiment holds, and what people do with it."""

import click

from pipelines.cli.main import Command, LazyGroup

COMMANDS: dict[str, Command] = {
    "list": Command("pipelines.cli.checkpoints_list:list_", "List an experiment's checkpoints, newest first."),
    "show": Command("pipelines.cli.checkpoints_show:show", "Show one checkpoint in full."),
    "diff": Command("pipelines.cli.checkpoints_diff:diff", "Compare two checkpoints."),
    "verify": Command("pipelines.cli.checkpoints_verify:verify", "Read a checkpoint through and record the verdict."),
    "pin": Command("pipelines.cli.checkpoints_pin:pin", "Keep a checkpoint whatever the retention policy says."),
    "unpin": Command("pipelines.cli.checkpoints_pin:unpin", "Take a pin away."),
    "adopt": Command("pipelines.cli.checkpoints_adopt:adopt", "Take in a checkpoint that another program wrote."),
    "retain": Command("pipelines.cli.checkpoints_retain:retain", "Apply the retention policy, or show its plan."),
    "export": Command("pipelines.cli.checkpoints_export:export", "Copy a checkpoint to a new folder."),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def checkpoints() -> None:
    """List, verify, pin, adopt, compare and export checkpoints."""
