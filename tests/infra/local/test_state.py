"""The fold of events, and what a torn or damaged file does to it."""

import resource
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.contracts.document import DamagedDocument
from components.errors import EnvironmentUnfit
from infra.local.events import (
    AttemptEnded,
    AttemptLost,
    AttemptStarted,
    EngineStarted,
    Event,
    MainEnded,
    NodeCreated,
    NodeEnded,
    NodeReset,
    RunEnded,
    StopAsked,
    event_line,
    read_events,
)
from infra.local.journal import Journal
from infra.local.run_dir import RunDir
from infra.local.state import Fold

AT = "2026-11-29T10:00:00.000Z"


def an_engine(incarnation=1, *, resumed=False):
    return EngineStarted(
        at=AT, incarnation=incarnation, pid=1, process_started=1, boot_id="b", host="h", resumed=resumed
    )


HISTORY = [
    an_engine(),
    NodeCreated(at=AT, node="a", task="a", template="t", kind="Retry", phase="Pending"),
    AttemptStarted(at=AT, node="a", attempt=0, pid=7, process_started=70),
    AttemptLost(at=AT, node="a", attempt=0, message="engine lost"),
    an_engine(2, resumed=True),
    AttemptStarted(at=AT, node="a", attempt=1, pid=8, process_started=80),
    AttemptEnded(at=AT, node="a", attempt=1, phase="Failed", exit_code=3, message="main: Error (exit code 3)"),
    NodeEnded(at=AT, node="a", phase="Failed", message="No more retries left"),
    StopAsked(at=AT, by="me", asked_at=AT, force=False),
    MainEnded(at=AT, phase="Failed", message=""),
    RunEnded(at=AT, phase="Failed", message="m", exit_code=83),
]
LINES = b"".join(event_line(event) for event in HISTORY)


def test_a_history_folds_to_what_people_see():
    state = Fold(HISTORY).state()
    node = state.nodes["a"]

    assert (state.phase, state.exit_code, state.stopped_by, state.is_final) == ("Failed", 83, "me", True)
    assert (node.phase, node.message, node.note) == ("Failed", "main: Error (exit code 3)", "No more retries left")
    assert [attempt.is_lost for attempt in node.attempts] == [True, False]
    assert node.charged == 1
    assert node.log_path == "nodes/a/1/output.log"


def test_a_reset_node_has_a_new_budget_and_keeps_its_attempts():
    again = [
        an_engine(3, resumed=True),
        NodeReset(at=AT, node="a"),
        NodeCreated(at=AT, node="a", task="a", template="t", kind="Retry", phase="Pending"),
    ]
    state = Fold([*HISTORY, *again]).state()

    assert (state.phase, state.stopped_by, state.is_final) == ("Running", None, False)
    assert (state.nodes["a"].charged, len(state.nodes["a"].attempts)) == (0, 2)


@given(st.integers(0, len(LINES)))
def test_a_file_cut_anywhere_is_the_history_up_to_the_last_whole_line(length):
    events, used = read_events(LINES[:length])

    assert events == HISTORY[: LINES[:length].count(b"\n")]
    assert used == LINES[:length].rfind(b"\n") + 1


@given(st.binary(max_size=200))
def test_bytes_that_are_no_events_are_no_history(data):
    events, used = read_events(LINES + data)

    assert events[: len(HISTORY)] == HISTORY
    assert used <= len(LINES) + len(data)


def test_a_journal_goes_on_after_a_torn_line(tmp_path):
    (tmp_path / "events.jsonl").write_bytes(LINES[:-10])

    with Journal(RunDir(tmp_path)) as journal:
        assert journal.events == HISTORY[:-1]
        journal.append(HISTORY[-1])
        journal.sync()
    assert (tmp_path / "events.jsonl").read_bytes() == LINES


def test_a_journal_damaged_in_the_middle_is_refused_not_cut(tmp_path):
    damaged = LINES[:30] + b"\x00" + LINES[31:]
    (tmp_path / "events.jsonl").write_bytes(damaged)

    with pytest.raises(DamagedDocument, match="and events follow"):
        Journal(RunDir(tmp_path))
    assert (tmp_path / "events.jsonl").read_bytes() == damaged


def test_an_event_the_disk_has_no_room_for_leaves_no_half_line(tmp_path):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Journal(RunDir(tmp_path)) as journal:
        journal.append(HISTORY[0])
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (len(event_line(HISTORY[0])) + 20, before[1]))
            with pytest.raises(EnvironmentUnfit, match="cannot write"):
                journal.append(HISTORY[1])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (tmp_path / "events.jsonl").read_bytes() == event_line(HISTORY[0])


@pytest.mark.parametrize("kind", get_args(Event), ids=lambda kind: kind.__name__)
def test_every_event_reads_back_whatever_is_unknown_in_it(kind):
    by_name, by_type = {"kind": "Retry", "phase": "Failed", "at": AT}, {str: "x", int: 1, bool: False}
    event = kind.model_validate(
        {
            name: by_name.get(name) or by_type[info.annotation]
            for name, info in kind.model_fields.items()
            if info.is_required()
        }
    )

    assert read_events(event_line(event)) == ([event], len(event_line(event)))
