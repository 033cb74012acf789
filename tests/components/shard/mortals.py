"""Packers that are killed: this program forks one for each line it is told, so that none loads anything.

A line `{"part": "plan", "task" or "merge", "storage": uri, "spec": …, "plan_id": …, "index": n, "after": [what, n]}` is
answered, once that child is dead, with its status and what it said. With `after` it kills itself with SIGKILL: in the
middle of a write, when it has handed the store n "bytes", or at its n-th of the "calls" of anything outside Python, and
every system call is one.
"""

import io
import json
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, BinaryIO

from components.runtime.log import Log
from components.shard.merge import merge_receipts
from components.shard.plan import make_plan
from components.shard.spec import ShardSpec
from components.shard.task import run_task
from components.storage.base import ObjectStore
from components.storage.local import LocalStore
from components.storage.location import S3Location, StoreOptions, parse_location
from components.storage.s3 import S3Store
from components.storage.s3_client import make_client
from tests.components.retain.mortals import MortalStore
from tests.components.shard.formats import FORMATS, made, rows

NEVER = 1 << 62


class CountingStore(MortalStore):
    """A folder that knows how many bytes it was handed, and at which of them its writer dies."""

    def used(self) -> int:
        return NEVER - self.bytes_left


class Wire:
    """What a process sends over its sockets; it dies in the middle of it."""

    def __init__(self, bytes_left: int) -> None:
        self.bytes_left = bytes_left
        send = socket.socket.sendall

        def sendall(connection: socket.socket, data: Any, *flags: int) -> None:
            view = memoryview(data).cast("B")
            if len(view) >= self.bytes_left:
                send(connection, view[: self.bytes_left])
                die()
            self.bytes_left -= len(view)
            send(connection, data, *flags)

        socket.socket.sendall = sendall  # type: ignore[method-assign]

    def used(self) -> int:
        return NEVER - self.bytes_left


class Calls:
    """What a process calls outside Python."""

    def __init__(self, last: int) -> None:
        self.num, self._last = 0, last

    def watch(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "c_call":
            self.num += 1
            if self.num >= self._last:
                die()


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def live(order: dict[str, Any], client: Any) -> dict[str, Any]:
    """The life of one child; what it says when it comes to its end."""
    what, last = order["after"] or ("", NEVER)
    bytes_left = last if what == "bytes" else NEVER
    place = parse_location(order["storage"])
    store: ObjectStore
    written: CountingStore | Wire
    if isinstance(place, S3Location):
        store, written = S3Store(place, client), Wire(bytes_left)
    else:
        store = written = CountingStore(place.folder, bytes_left)
    calls, lines = Calls(last if what == "calls" else NEVER), io.StringIO()
    spec, log = ShardSpec.from_bytes(order["spec"].encode(), where="the order"), Log({}, lines)
    sys.setprofile(calls.watch)
    if order["part"] == "plan":
        said = make_plan(store, spec, workdir="", log=log)[0]
    elif order["part"] == "task":
        run_task(store, plan_id=order["plan_id"], task_index=str(order["index"]), num_tasks=spec.num_tasks, log=log)
        said = ""
    else:
        said = merge_receipts(store, plan_id=order["plan_id"], num_tasks=spec.num_tasks, log=log).data_version
    sys.setprofile(None)
    told = [json.loads(line) for line in lines.getvalue().splitlines()]
    found = [line["entry"] for line in told if "is there already" in line["message"]]
    return {"said": said, "found": found, "calls": calls.num, "bytes": written.used()}


def load_everything() -> Any:
    """What is otherwise loaded when it is first needed, by each child anew, and a client that has asked nothing yet.

    Nothing here may start a thread.
    """
    import pyarrow.parquet

    with tempfile.TemporaryDirectory() as folder:
        corpus = rows(Path(folder) / "rows", count=3)
        for format in FORMATS:
            if format != "parquet":  # Arrow starts threads, which do not survive a fork
                made(LocalStore(Path(folder) / format), corpus, format)
    assert pyarrow.parquet is not None
    return make_client(StoreOptions.of_environment(os.environ), uri="s3://tests")


def in_a_child(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What the work says, and the status of the process that did it."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            answer = json.dumps(work()).encode()
            with os.fdopen(writer, "wb") as pipe:
                pipe.write(answer)
            code = 0
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return {**(json.loads(said) if said and status == 0 else {}), "status": status}


def main(orders: BinaryIO) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else is said is for people
    client = load_everything()
    for line in orders:
        order = json.loads(line)
        print(json.dumps(in_a_child(lambda order=order: live(order, client))), file=answers, flush=True)  # type: ignore[misc]


if __name__ == "__main__":
    main(sys.stdin.buffer)
