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
from typing import Any

from components.contracts.dataset import DataOptions, PackingOptions, ReadOptions, SampleOptions
from components.errors import ArgosyError, BadInput, ExitCode
from components.runtime.log import Log
from components.shard.export import export_version
from components.shard.flags import UsageError, parse
from components.shard.merge import merge_receipts
from components.shard.plan import make_plan
from components.shard.spec import ShardSpec
from components.shard.task import run_task
from components.shard.verify import verify_version
from components.storage.base import open_store


def main(argv: Sequence[str]) -> int:
    """Run one command; returns its exit code. An error that is a bug is told with its traceback, and is 70."""
    try:
        arguments = parse(argv)
    except UsageError as error:
        print(
            error.usage + "\n".join(f"python -m components.shard: {fault}" for fault in error.faults), file=sys.stderr
        )
        return int(ExitCode.BAD_INPUT)
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
        options = PackingOptions(sequence_length=arguments.sequence_length, over_long=arguments.over_long)
    else:
        options = SampleOptions(format=arguments.format)
    flags = vars(arguments)  # plan takes no --tasks and no --verify, which change nothing in it
    return ShardSpec(
        corpus=arguments.corpus, read=read, options=options, tokenizer=arguments.tokenizer,
        end_of_document=arguments.end_of_document, max_bad_records=arguments.max_bad_records,
        num_tasks=flags.get("tasks", 1), target_shard_bytes=arguments.target_shard_size,
        verify=flags.get("verify", "digests"),
    )  # fmt: skip
