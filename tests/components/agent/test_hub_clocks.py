"""The end of a rank on another node, by the coordinator's clock: a node whose clock is an hour ahead, on the wire."""

import asyncio
import io
import math
import time
from pathlib import Path

from components.agent.events import Event, Heard
from components.agent.hub import Hub
from components.agent.logs import LogStreams
from components.agent.messages import Beat, RankExited, read_to_node
from components.agent.run_context import RunContext
from components.agent.tasks import Tasks
from components.agent.wire import introduce
from components.runtime.log import Log
from components.storage.local import LocalStore
from tests.components.agent.test_coordinator import a_spec

SILENT = Log({}, io.StringIO())
SECRET = b"a secret of the gang"
AHEAD = 3600.0


def test_the_end_of_a_rank_is_told_by_the_coordinators_clock(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "storage")
    context = RunContext(
        spec=a_spec(storage=store.uri, coordinator_file=str(tmp_path / "coordinator")), node_rank=0, workdir=tmp_path,
        store=store, log=SILENT, streams=LogStreams(tmp_path / "spool", store, lambda stream, number: "logs"),
        node="here",
    )  # fmt: skip
    ended_at, heard = asyncio.run(_told(context))
    assert math.isfinite(heard.within)
    assert abs(heard.at - ended_at) <= heard.within + 0.001


async def _told(context: RunContext) -> tuple[float, RankExited]:
    told: asyncio.Future[RankExited] = asyncio.get_running_loop().create_future()

    def on_event(event: Event) -> None:
        if isinstance(event, Heard) and isinstance(event.message, RankExited):
            told.set_result(event.message)

    tasks = Tasks(on_bug=lambda error: told.set_exception(error))
    hub = Hub(context, secret=SECRET, on_event=on_event, tasks=tasks)
    await hub.open()
    host, _, port = Path(context.spec.coordinator_file).read_text().strip().rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    channel = await introduce(reader, writer, secret=SECRET, gang=context.gang, node_rank=1)
    beat = read_to_node(await channel.receive())
    assert isinstance(beat, Beat)
    assert beat.at is not None
    channel.send(Beat(at=time.time() + AHEAD, answers=beat.at).to_bytes())
    ended_at = time.time()
    channel.send(RankExited(attempt=0, rank=1, exit_code=3, at=ended_at + AHEAD).to_bytes())
    heard = await asyncio.wait_for(told, 30)
    tasks.cancel()
    await hub.close()
    writer.close()
    return ended_at, heard
