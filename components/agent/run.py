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
from components.agent.run_context import RunContext
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
    try:
        context = _context(arguments)
        secret = _read_secret(arguments.secret_fd)
    except (ArgosyError, OSError) as error:
        print(f"agent {arguments.node_rank}: {error}", file=sys.stderr)
        return int(error.exit_code if isinstance(error, ArgosyError) else BadInput.exit_code)
    try:
        # Not asyncio.run: at its end it waits for threads, and one may hang in a store.
        return asyncio.new_event_loop().run_until_complete(_run(context, secret))
    except ArgosyError as error:
        context.log.error(str(error), reason=error.reason, exit_code=int(error.exit_code))
        return int(error.exit_code)
    except Exception as error:
        context.log.error(f"Bug: {type(error).__name__}: {error}", reason="Bug", traceback=traceback.format_exc())
        return int(ExitCode.BUG)


async def _run(context: RunContext, secret: bytes) -> int:
    if context.node_rank == 0:
        from components.agent.lead import Lead

        return await Lead(context, secret=secret).run()
    from components.agent.follow import Follow

    return await Follow(context, secret=secret).run()


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m components.agent", allow_abbrev=False)
    parser.add_argument("--spec-file", type=Path, required=True, help="the GangSpec as JSON")
    parser.add_argument("--node-rank", type=int, required=True)
    parser.add_argument("--workdir", type=Path, required=True, help="this node's own folder")
    parser.add_argument("--secret-fd", type=int, required=True, help="descriptor from which to read the gang's secret")
    try:
        return parser.parse_args(argv)
    except SystemExit as error:
        sys.exit(int(BadInput.exit_code) if error.code else 0)


def _context(arguments: argparse.Namespace) -> RunContext:
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
    return RunContext(spec=spec, node_rank=node_rank, workdir=workdir, store=store, log=log, streams=streams, node=node)


def _read_secret(descriptor: int) -> bytes:
    with os.fdopen(descriptor, "rb") as file:
        secret = file.read(_MAX_SECRET_BYTES).strip()
    if len(secret) < _MIN_SECRET_BYTES:
        raise BadInput("NoSecret", f"the gang's secret has {len(secret)} bytes", f"give at least {_MIN_SECRET_BYTES}")
    return secret
