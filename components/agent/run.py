"""Runs one agent from its command line to its exit code."""

import argparse
import asyncio
import os
import socket
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO, cast

from components.agent.logs import LogStreams, NodeLog
from components.agent.pod import PodSide
from components.agent.run_context import RunContext
from components.contracts.cluster_names import COMPLETION_INDEX_VARIABLE
from components.contracts.gang import GangSpec
from components.contracts.layout import log_chunk_key, node_stream
from components.errors import ArgosyError, BadInput, ExitCode
from components.runtime.log import Log
from components.runtime.processes import become_subreaper
from components.runtime.stage import image_fields
from components.storage.base import open_store

_MIN_SECRET_BYTES = 16
_MAX_SECRET_BYTES = 4096


def main(argv: Sequence[str]) -> int:
    """Run one agent; its exit code."""
    arguments = _parse(argv)
    become_subreaper()
    pod = PodSide(arguments.guard_socket, arguments.workdir) if arguments.guard_socket else None
    try:
        if pod is not None:
            pod.begin()
        context = _context(arguments, pod)
        secret = _read_secret(arguments)
    except (ArgosyError, OSError) as error:
        print(f"agent {arguments.node_rank}: {error}", file=sys.stderr)
        code = int(error.exit_code if isinstance(error, ArgosyError) else BadInput.exit_code)
        if pod is not None:
            pod.words = str(error)
            pod.leave(code)
        return code
    code, words = _run_to_its_end(context, secret)
    if pod is not None:
        pod.words = pod.words or words
        pod.leave(code)
    return code


def _run_to_its_end(context: RunContext, secret: bytes) -> tuple[int, str]:
    """Exit code and, when it ended by an error, that error."""
    try:
        # Not asyncio.run: at its end it waits for threads, and one may hang in a store.
        return asyncio.new_event_loop().run_until_complete(_run(context, secret)), ""
    except ArgosyError as error:
        context.log.error(str(error), reason=error.reason, exit_code=int(error.exit_code))
        return int(error.exit_code), str(error)
    except Exception as error:
        text = f"Bug: {type(error).__name__}: {error}"
        context.log.error(text, reason="Bug", traceback=traceback.format_exc())
        return int(ExitCode.BUG), text


async def _run(context: RunContext, secret: bytes) -> int:
    if context.node_rank == 0:
        from components.agent.lead import Lead

        return await Lead(context, secret=secret).run()
    from components.agent.follow import Follow

    return await Follow(context, secret=secret).run()


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m components.agent", allow_abbrev=False)
    parser.add_argument("--spec-file", type=Path, required=True, help="the GangSpec as JSON")
    rank = os.environ.get(COMPLETION_INDEX_VARIABLE, "")
    parser.add_argument(
        "--node-rank", type=int, required=not rank, default=int(rank) if rank.isdigit() else None,
        help=f"in an Indexed Job: ${COMPLETION_INDEX_VARIABLE}",
    )  # fmt: skip
    parser.add_argument("--workdir", type=Path, required=True, help="this node's own folder")
    secret = parser.add_mutually_exclusive_group(required=True)
    secret.add_argument("--secret-fd", type=int, help="descriptor from which to read the gang's secret")
    secret.add_argument("--secret-file", type=Path, help="file that holds the gang's secret")
    parser.add_argument(
        "--guard-socket", type=Path, help="in a pod: where the guard, in the program's container, will connect"
    )
    try:
        return parser.parse_args(argv)
    except SystemExit as error:
        sys.exit(int(BadInput.exit_code) if error.code else 0)


def _context(arguments: argparse.Namespace, pod: PodSide | None) -> RunContext:
    spec = GangSpec.from_bytes(arguments.spec_file.read_bytes(), where=str(arguments.spec_file))
    node_rank, workdir = arguments.node_rank, arguments.workdir.resolve()
    if not 0 <= node_rank < spec.num_nodes:
        raise BadInput("BadNodeRank", f"--node-rank is {node_rank}, but the gang has {spec.num_nodes} nodes")
    workdir.mkdir(parents=True, exist_ok=True)
    store = open_store(spec.storage)
    streams = LogStreams(
        workdir / "spool", store,
        lambda stream, chunk: log_chunk_key(spec.run, generation=spec.generation, stream=stream, chunk=chunk),
    )  # fmt: skip
    node = os.environ.get("ARGOSY_NODE") or socket.gethostname()
    fields = {
        "experiment": spec.experiment, "workflow": os.environ.get("ARGOSY_WORKFLOW") or spec.run, "run": spec.run,
        "task": "launch", "generation": spec.generation, "node": node, "node_rank": node_rank, **image_fields(),
    }  # fmt: skip
    log = Log(fields, cast(TextIO, NodeLog(streams.get(node_stream(node_rank)))))
    return RunContext(
        spec=spec, node_rank=node_rank, workdir=workdir, store=store, log=log, streams=streams, node=node, pod=pod
    )


def _read_secret(arguments: argparse.Namespace) -> bytes:
    with open(arguments.secret_file or arguments.secret_fd, "rb") as file:
        secret = file.read(_MAX_SECRET_BYTES).strip()
    if len(secret) < _MIN_SECRET_BYTES:
        raise BadInput("NoSecret", f"the gang's secret has {len(secret)} bytes", f"give at least {_MIN_SECRET_BYTES}")
    return secret
