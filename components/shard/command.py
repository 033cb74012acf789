"""The stage by hand: the same plan, tasks and merge with plain flags, and what else one does with a data set.

Results go to standard output as `name=value` lines, everything else as JSON lines to standard error.
"""

import argparse
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NoReturn, cast, get_args

from pydantic import ValidationError

from components.contracts.dataset import (
    DataOptions,
    FieldType,
    OverLong,
    PackingOptions,
    ProofLevel,
    ReadAs,
    ReadOptions,
    SampleField,
    SampleOptions,
)
from components.contracts.units import parse_size
from components.errors import ArgosyError, BadInput, ExitCode
from components.runtime.log import Log
from components.shard.export import export_version
from components.shard.merge import merge_receipts
from components.shard.plan import make_plan
from components.shard.spec import ShardSpec
from components.shard.task import run_task
from components.shard.verify import verify_version
from components.storage.base import open_store

_LEVELS = {"0": "files", "1": "digests", "2": "records"}
_EXAMPLES = """
examples:
  python -m components.shard all --corpus text/ --storage data/ --sequence-length 2048 --over-long split
  python -m components.shard all --corpus images/ --storage s3://bucket/data --format webdataset --tasks 8
  python -m components.shard verify --storage data/ --version d-0123456789abcdef --level records
  python -m components.shard export --storage data/ --version d-0123456789abcdef --to shards/
"""


def main(argv: Sequence[str]) -> int:
    """Run one command; returns its exit code. An error that is a bug is told with its traceback, and is 70."""
    arguments = _parser().parse_args(argv)
    log = Log({"task": f"shard {arguments.command}"}, sys.stderr)
    try:
        outputs = _COMMANDS[arguments.command](arguments, log)
    except ArgosyError as error:
        log.error(str(error), reason=error.reason, exit_code=int(error.exit_code))
        return int(error.exit_code)
    except BrokenPipeError:
        return int(ExitCode.INTERRUPTED)
    except Exception as error:
        log.error(f"Bug: {type(error).__name__}: {error}", reason="Bug", traceback=traceback.format_exc())
        return int(ExitCode.BUG)
    for name, value in outputs.items():
        print(f"{name}={value}")
    return int(ExitCode.OK)


def _plan(arguments: argparse.Namespace, log: Log) -> Mapping[str, Any]:
    plan_id, plan = make_plan(_store(arguments), _spec(arguments), workdir=os.getcwd(), log=log)
    return {"plan_id": plan_id, "num_shards": plan.num_shards}


def _task(arguments: argparse.Namespace, log: Log) -> Mapping[str, Any]:
    _check_index(arguments)
    run_task(
        _store(arguments), plan_id=arguments.plan, task_index=str(arguments.index), num_tasks=arguments.tasks, log=log,
        verify=arguments.verify,
    )  # fmt: skip
    return {}


def _merge(arguments: argparse.Namespace, log: Log) -> Mapping[str, Any]:
    manifest = merge_receipts(_store(arguments), plan_id=arguments.plan, num_tasks=arguments.tasks, log=log)
    held = {
        "num_sequences": manifest.num_sequences,
        "num_tokens": manifest.num_tokens,
        "num_samples": manifest.num_samples,
    }
    return {"data_version": manifest.data_version, **{name: number for name, number in held.items() if number}}


def _all(arguments: argparse.Namespace, log: Log) -> Mapping[str, Any]:
    planned = _plan(arguments, log)
    arguments.plan = planned["plan_id"]
    if arguments.tasks == 1:
        arguments.index = 0
        _task(arguments, log)
    else:
        with get_context("spawn").Pool(min(arguments.tasks, len(os.sched_getaffinity(0)))) as pool:
            codes = pool.map(_task_in_process, [(arguments, index) for index in range(arguments.tasks)], chunksize=1)
        if failed := [code for code in codes if code]:
            raise _failure(failed[0], f"{len(failed)} of {arguments.tasks} tasks failed; each said why")
    return {**planned, **_merge(arguments, log)}


def _task_in_process(work: tuple[argparse.Namespace, int]) -> int:
    arguments, index = work
    arguments.index = index
    log = Log({"task": f"shard task {index}"}, sys.stderr)
    try:
        _task(arguments, log)
    except ArgosyError as error:
        log.error(str(error), reason=error.reason, exit_code=int(error.exit_code))
        return int(error.exit_code)
    return 0


def _verify(arguments: argparse.Namespace, log: Log) -> Mapping[str, Any]:
    _check_index(arguments)
    checked = verify_version(
        _store(arguments), arguments.version, level=arguments.level, log=log, task=(arguments.index, arguments.tasks)
    )
    return {"verified": arguments.version, "level": arguments.level, "num_shards": checked}


def _export(arguments: argparse.Namespace, log: Log) -> Mapping[str, Any]:
    folder = export_version(_store(arguments), arguments.version, to=Path(arguments.to), log=log)
    return {"folder": folder}


_COMMANDS = {"plan": _plan, "task": _task, "merge": _merge, "all": _all, "verify": _verify, "export": _export}


def _check_index(arguments: argparse.Namespace) -> None:
    if arguments.index >= arguments.tasks:
        seen, last = f"--index is {arguments.index} and --tasks {arguments.tasks}", arguments.tasks - 1
        raise BadInput("BadTaskIndex", seen, f"pass --index 0 … {last}" if last else "pass --index 0, or more --tasks")


def _failure(exit_code: int, seen: str) -> ArgosyError:
    from components.errors import error_for

    return (error_for(exit_code) or BadInput)("TasksFailed", seen)


def _store(arguments: argparse.Namespace) -> Any:
    text = arguments.storage
    if not text.strip():
        raise BadInput("NoStorage", "--storage is empty", "name a folder, file:///folder or s3://bucket/prefix")
    return open_store(text if "://" in text else f"file://{os.path.abspath(os.path.expanduser(text))}")


def _spec(arguments: argparse.Namespace) -> ShardSpec:
    read = ReadOptions(
        read_as=arguments.read_as, text_field=arguments.text_field, key_field=arguments.key_field,
        fields=tuple(arguments.field),
    )  # fmt: skip
    options: DataOptions
    if arguments.format == "tokens":
        if not arguments.sequence_length or not arguments.over_long:
            raise BadInput("MissingFlag", "format tokens needs --sequence-length and --over-long", "see --help")
        options = PackingOptions(sequence_length=arguments.sequence_length, over_long=arguments.over_long)
    else:
        options = SampleOptions(format=arguments.format)
    return ShardSpec(
        corpus=arguments.corpus, read=read, options=options, tokenizer=arguments.tokenizer,
        end_of_document=arguments.end_of_document, max_bad_records=arguments.max_bad_records,
        num_tasks=arguments.tasks, target_shard_bytes=arguments.target_shard_size, verify=arguments.verify,
    )  # fmt: skip


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        print(f"{self.prog}: {message}", file=sys.stderr)
        sys.exit(int(ExitCode.BAD_INPUT))


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m components.shard", description="Pack a corpus into shards with one data version.",
        epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
    )  # fmt: skip
    commands = parser.add_subparsers(dest="command", required=True, metavar="plan|task|merge|all|verify|export")
    for name, said, flags in (
        ("plan", "decide which inputs become which shards; prints plan_id", (_corpus_flags, _proof_flags)),
        ("task", "make every n-th shard of a plan; tasks may run in any order, and again",
         (_plan_flags, _index_flags, _proof_flags)),
        ("merge", "join the tasks' receipts into a data version", (_plan_flags,)),
        ("all", "plan, all tasks side by side, merge", (_corpus_flags, _proof_flags)),
        ("verify", "prove a data version; names shard, offset, expected, found",
         (_version_flags, _index_flags, _level_flags)),
        ("export", "copy a data version into a folder that other loaders read", (_version_flags, _to_flags)),
    ):  # fmt: skip
        command = commands.add_parser(name, help=said, description=said, allow_abbrev=False)
        command.add_argument("--storage", required=True, help="folder, file:///folder or s3://bucket/prefix")
        if name not in ("export",):
            command.add_argument(
                "--tasks", type=_positive, default=1, help="how many share the work; never changes the bytes"
            )
        for add in flags:
            add(command)
    return parser


def _corpus_flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--corpus", required=True, help="folder, file, glob, manifest, s3://bucket/prefix or python:stdlib")
    add("--read-as", choices=get_args(ReadAs), default="auto", help="how records are found; auto goes by suffix")
    add("--format", choices=("tokens", "webdataset", "parquet", "mds"), default="tokens", help="what comes out")
    add("--sequence-length", type=_positive, help="tokens: tokens in every packed sequence")
    add("--over-long", choices=get_args(OverLong), help="tokens: what happens to longer documents")
    add("--tokenizer", default="bytes", help="tokens: bytes, or a tokenizer.json")
    add("--end-of-document", help="tokens: the tokenizer's token that ends a document")
    add("--text-field", help="tokens: the field that holds the document")
    add("--key-field", help="the field of a row that names its sample")
    add(
        "--field", type=_field, action="append", default=[], metavar="NAME:TYPE", help="a field to keep; again for more"
    )
    add("--max-bad-records", type=_count, default=0, help="records that may be left out, with a quarantine file")
    add("--target-shard-size", type=_size, default=64 << 20, help="input bytes after which a new shard begins")


def _plan_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--plan", required=True, help="plan_id, as printed by plan")


def _index_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--index", type=_count, default=0, help="which task this is: 0 to tasks - 1")


def _version_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--version", required=True, help="data version, d-…")


def _to_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--to", required=True, help="folder to make")


def _level_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--level", type=_level, default="digests", help="0 files, 1 digests, 2 records")


def _proof_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--verify",
        type=_level,
        default="digests",
        help="how each task proves the shards it leaves: 0 files, 1 digests, 2 records",
    )


def _level(text: str) -> ProofLevel:
    level = _LEVELS.get(text, text)
    if level not in get_args(ProofLevel):
        raise argparse.ArgumentTypeError(f"{text!r} is none of 0 files, 1 digests, 2 records")
    return cast(ProofLevel, level)


def _field(text: str) -> SampleField:
    name, _, kind = text.rpartition(":")
    try:
        return SampleField(name=name or text, type=cast(FieldType, kind if name else "bytes"))
    except ValidationError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: the type is one of {', '.join(get_args(FieldType))}") from error


def _size(text: str) -> int:
    try:
        return parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of 0 or more")
    return int(text)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of 1 or more")
    return int(text)
