"""A run whose gang waits in a queue is Queued, or Preempted, and says why, where, and beside whom."""

from datetime import UTC, datetime
from typing import Any

import pytest

from components.contracts.gang import GenerationView
from components.contracts.lifecycle import RunState
from components.contracts.queue import QueueView, QuotaView
from components.contracts.run_view import RunView
from components.diagnosis.diagnose import diagnose
from components.diagnosis.verdict import Actor
from components.report.fold import RunDocuments, fold_run_view
from tests.runs import RUN, a_launch, a_node, a_record, an_engine, at

NOW = datetime(2026, 11, 29, 12, 2, tzinfo=UTC)


def a_queue(**changes: Any) -> QueueView:
    values: dict[str, Any] = {
        "name": "main", "reason": "QuotaBusy", "message": "insufficient unused quota for cpu", "since": at(30),
        "position": 2, "num_waiting": 3,
    }  # fmt: skip
    return QueueView(**values | changes)


def view(state: RunState, queue: QueueView, generations: int = 1) -> RunView:
    made = tuple(GenerationView(generation=number, created_at=at(30)) for number in range(generations))
    launch = a_launch(state, backend="jobset", queue=queue, generations=made)
    engine = an_engine(a_node("preflight"), a_node("launch", "Running"))
    return fold_run_view(RunDocuments(run=RUN, record=a_record(target="kubernetes"), engine=engine, launch=launch))


def test_a_run_that_waits_is_queued_with_its_place_and_the_quota_in_use() -> None:
    quota = QuotaView(resource="cpu", flavor="default", used="6", quota="8", used_by_others="4")
    found = view(RunState.QUEUED, a_queue(quota=(quota,), num_others_waiting=1))
    assert found.state is RunState.QUEUED
    said = diagnose(found, NOW)
    assert (said.reason, said.actor) == ("QuotaBusy", Actor.NOBODY)
    assert said.cause == "the gang waits in queue main as number 2 of 3: insufficient unused quota for cpu"
    assert [(item.field, item.value) for item in said.evidence] == [
        ("others waiting for its quota", "1"), ("cpu (default)", "6 of 8 in use, 4 of it by others"),
    ]  # fmt: skip


def test_a_run_that_made_room_is_preempted_until_it_is_let_in_again() -> None:
    found = view(RunState.PREEMPTED, a_queue(), generations=2)
    assert found.state is RunState.PREEMPTED
    assert diagnose(found, NOW).cause.startswith("the gang made room and waits in queue main")


@pytest.mark.parametrize(
    ("reason", "actor"),
    [("QueueStopped", Actor.PLATFORM), ("KueueSilent", Actor.PLATFORM), ("NoMatchingFlavor", Actor.SUBMITTER)],
)
def test_what_somebody_must_mend_is_theirs(reason: str, actor: Actor) -> None:
    assert diagnose(view(RunState.QUEUED, a_queue(reason=reason)), NOW).actor is actor
