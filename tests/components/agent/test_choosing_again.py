"""What a START resumes from, while an older gang still commits: a store where that one is always a record earlier."""

import io
from pathlib import Path

import pytest

from components.agent.events import Prepare, Prepared, PrepareFailed
from components.agent.logs import LogStreams
from components.agent.publishing import prepare_start
from components.agent.run_context import RunContext
from components.ledger.ledger import Ledger
from components.runtime.log import Log
from components.storage.local import LocalStore
from tests.components.agent.test_coordinator import a_spec
from tests.components.ledger.building import DATA_VERSION, a_begun_run, a_checkpoint, a_ledger, a_stage

LOG = "checkpoints/toy/v1/log/"


class OvertakenStore(LocalStore):
    """Before some of the log's records are written, the gang of term 1 commits another step, and it is verified."""

    def __init__(self, root: Path, stage: Path, *, num_commits: int) -> None:
        super().__init__(root)
        self._stage, self._num_left, self._step = stage, num_commits, 0

    def create(self, key: str, data: bytes | bytearray) -> None:
        if key.startswith(LOG) and self._num_left:
            self._num_left -= 1
            self._step += 10
            older = a_ledger(LocalStore(self.root), experiment="toy")
            a_checkpoint(older, self._stage, step=self._step, term=1, run=a_spec().run, verified="tensors")
        super().create(key, data)


def prepared(tmp_path: Path, *, num_commits: int) -> tuple[Prepared | PrepareFailed, Ledger]:
    spec = a_spec(storage=f"file://{tmp_path}/storage", data_version=DATA_VERSION)
    assert (spec.experiment, spec.model_version) == ("toy", "v1")
    ledger = a_ledger(LocalStore(tmp_path / "storage"), experiment="toy")
    a_begun_run(ledger, spec.run)
    store = OvertakenStore(tmp_path / "storage", a_stage(tmp_path / "stage"), num_commits=num_commits)
    context = RunContext(
        spec=spec, node_rank=0, workdir=tmp_path, store=store, log=Log({}, io.StringIO()),
        streams=LogStreams(tmp_path / "spool", store, lambda stream, number: "logs"), node="here",
    )  # fmt: skip
    action = Prepare(attempt=1, reason="restart", charged=True)
    return prepare_start(context, action, restarts_before=0), ledger


@pytest.mark.parametrize("num_commits", [1, 3])
def test_a_start_resumes_from_what_an_older_gang_commits_while_it_chooses(tmp_path: Path, num_commits: int) -> None:
    found, ledger = prepared(tmp_path, num_commits=num_commits)

    assert isinstance(found, Prepared)
    assert (found.term, found.source) == (2, f"step-{10 * num_commits}-term-1")
    assert [begin.source for begin in ledger.state().begins] == [None, f"step-{10 * num_commits}-term-1"]
    assert found.restarts_used == 1


def test_an_older_gang_that_is_always_faster_is_fenced_all_the_same(tmp_path: Path) -> None:
    found, ledger = prepared(tmp_path, num_commits=7)

    assert isinstance(found, Prepared)
    assert (found.term, found.source) == (2, "step-40-term-1")  # the fifth choice stands, whatever came after it
    assert ledger.state().term == 2
