"""The command line: one table of commands, loaded when called, and one place that turns errors into exit codes."""

import gc
import importlib
import itertools
import sys
import traceback
from collections.abc import Sequence
from typing import Any, NamedTuple

import click

from components.errors import ArgosyError, BadInput, EnvironmentUnfit, ExitCode, Stopped
from pipelines.cli.streams import discard_output, open_standard_streams
from pipelines.version import VERSION


class Command(NamedTuple):
    """Where a command lives and what it does, so that `--help` imports none of them."""

    target: str
    """`module:attribute` of a click command."""
    help: str
    """The first line of its help; a test holds both equal."""


COMMANDS: dict[str, Command] = {
    "init": Command("pipelines.cli.init:init", "Write a commented run.yaml to start from."),
    "doctor": Command("pipelines.cli.doctor:doctor", "Say whether this machine is fit, and what is missing."),
    "validate": Command("pipelines.cli.validate:validate", "Check a run description and list every fault in it."),
    "compile": Command("pipelines.cli.compile:compile_", "Print the Argo Workflow of a run description."),
    "submit": Command("pipelines.cli.submit:submit", "Start a run and follow it to its end."),
    "status": Command("pipelines.cli.status:status", "Show where a run stands."),
    "logs": Command("pipelines.cli.logs:logs", "Show what a run's stages and ranks wrote."),
    "why": Command("pipelines.cli.why:why", "Say why a run failed, stopped or waits, and what to do."),
    "stop": Command("pipelines.cli.stop:stop", "Stop a run gracefully; --force kills it."),
    "resume": Command("pipelines.cli.resume:resume", "Continue a failed, stopped or interrupted run."),
    "runs": Command("pipelines.cli.runs:runs", "List the runs."),
    "checkpoints": Command(
        "pipelines.cli.checkpoints:checkpoints", "List, verify, pin, adopt, compare and export checkpoints."
    ),
    "recipes": Command("pipelines.cli.recipes:recipes", "List the built-in run descriptions, or print one of them."),
    "schema": Command("pipelines.cli.schema:schema", "Print the JSON Schema of the run description."),
}


class LazyGroup(click.Group):
    """A group whose commands are named in a table and imported only when one is called."""

    def __init__(self, *args: Any, table: dict[str, Command], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.table:
            return None
        module, _, attribute = self.table[cmd_name].target.partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in self.table:
            import difflib

            near = difflib.get_close_matches(args[0], self.table, n=1)
            ctx.fail(f"there is no command {args[0]!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.help) for name, command in self.table.items()])


@click.group(
    cls=LazyGroup,
    table=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Exit codes: 0 ok, 70 our bug, 75 no answer, 78 bad input, 80 and 81 unfit, "
    "83 stopped, 84 interrupted, 90-96 the run failed; see README.",
)
@click.version_option(VERSION, prog_name="argosy", message="%(prog)s %(version)s")
def cli() -> None:
    """From one YAML file to a verified checkpoint: shard, preflight, launch, verify, retain."""


def run(argv: Sequence[str]) -> int:
    """Run one command line and return its exit code; errors go to stderr, as JSON when `-o json` was asked for.

    A command returns its exit code (None is 0), calls `ctx.exit(code)`, or raises an ArgosyError.
    """
    # Most commands live for less than a second and mostly import. With Python's defaults a quarter of that time would
    # go into looking for cycles among half a million objects that all stay: fewer rounds, and none at exit.
    gc.set_threshold(100_000)
    open_standard_streams()
    try:
        return _run(argv)
    finally:
        gc.freeze()


def _run(argv: Sequence[str]) -> int:
    try:
        result = _invoke(argv)
        sys.stdout.flush()
        return result if isinstance(result, int) else int(ExitCode.OK)
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message(), file=sys.stderr)
        return int(ExitCode.BAD_INPUT)
    except click.ClickException as error:
        return _report(_usage_error(error), argv)
    except (click.Abort, KeyboardInterrupt):
        return _report(Stopped("Interrupted", "stopped by Ctrl-C"), argv)
    except ArgosyError as error:
        return _report(error, argv)
    except BrokenPipeError:
        discard_output()  # the reader (`| head`) has seen enough
        return int(ExitCode.OK)
    except OSError as error:
        discard_output()
        return _report(_refused(error), argv)
    except Exception:
        traceback.print_exc()
        print("This is a bug in Argosy; please report it with the lines above.", file=sys.stderr)
        return int(ExitCode.BUG)


def _invoke(argv: Sequence[str]) -> Any:
    """What the command returns. click's own `main` would end the process with 1 when a reader of its output leaves."""
    try:
        with cli.make_context("train.py", list(argv)) as context:
            return cli.invoke(context)
    except click.exceptions.Exit as leaving:
        return leaving.exit_code


def _refused(error: OSError) -> EnvironmentUnfit:
    """What the system refused: our output, when no file is named."""
    seen = error.strerror or str(error)
    if error.filename is None:
        return EnvironmentUnfit("OutputRefused", f"cannot write what this command prints: {seen}", "print it elsewhere")
    return EnvironmentUnfit("SystemRefused", f"{error.filename}: {seen}", "check that path and try again")


def _usage_error(error: click.ClickException) -> BadInput:
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "train.py"
    message = error.format_message()
    return BadInput("Usage", message[:1].lower() + message[1:].rstrip("."), f"see `{path} --help`")


def _report(error: ArgosyError, argv: Sequence[str]) -> int:
    """Say what went wrong on stderr, once."""
    if wants_json(argv):
        import json

        problems = [
            {"where": item.where, "seen": item.seen, "fix": item.fix} for item in getattr(error, "problems", ())
        ]
        body = {
            "reason": error.reason,
            "seen": error.seen,
            "fix": error.fix,
            "problems": problems,
            "exit_code": int(error.exit_code),
        }
        print(json.dumps({"error": body}, ensure_ascii=False), file=sys.stderr)
    else:
        print(error, file=sys.stderr)
    return int(error.exit_code)


def wants_json(argv: Sequence[str]) -> bool:
    """Whether the command line asks for JSON, also when it is otherwise wrong."""
    return any(item in ("-ojson", "-o=json", "--output=json") for item in argv) or any(
        option in ("-o", "--output") and value == "json" for option, value in itertools.pairwise(argv)
    )
