"""The engine's events in the words of the run view."""

from typing import Any

import pytest

from components.contracts.stop import StopRequest
from infra.local.events import (
    AttemptEnded,
    AttemptStarted,
    EngineStarted,
    NodeCreated,
    NodeEnded,
    RunEnded,
    StopAsked,
)
from infra.local.state import Fold
from pipelines.cli.engine_view import engine_view
from tests.runs import at

TASKS = ("shard-plan", "shard-task", "shard-merge", "launch")


def started() -> EngineStarted:
    return EngineStarted(at=at(0), incarnation=1, pid=7, process_started=1, boot_id="b", host="box", resumed=False)


def created(node: str, kind: Any = "Pod", **changes: Any) -> NodeCreated:
    task = node.partition("(")[0]
    return NodeCreated(at=at(1), node=node, task=task, template=task, kind=kind, phase="Running", **changes)


def ran(node: str, exit_code: int = 0, **changes: Any) -> list[Any]:
    phase: Any = "Succeeded" if exit_code == 0 else "Failed"
    message = "" if exit_code == 0 else f"main: Error (exit code {exit_code}): BadInput: x\n  y"
    return [
        AttemptStarted(at=at(2), node=node, attempt=0, pid=8, process_started=1),
        AttemptEnded(at=at(3), node=node, attempt=0, phase=phase, exit_code=exit_code, message=message, **changes),
        NodeEnded(at=at(3), node=node, phase=phase, message=message),
    ]


def view_of(*events: Any, asked: StopRequest | None = None) -> Any:
    return engine_view(Fold(events).state(), is_alive=True, tasks=TASKS, asked=asked)


def test_tasks_stand_in_the_order_of_the_manifest_and_items_have_their_stages_names():
    view = view_of(
        started(), created("shard-plan"), *ran("shard-plan"), created("shard-task", "TaskGroup", items=("0", "1")),
        created("shard-task(0:0)"), created("shard-task(1:1)"), created("onExit[0].finish"),
    )  # fmt: skip

    assert [(node.task, node.phase) for node in view.nodes] == [
        ("shard-plan", "Succeeded"),
        ("shard-task-0", "Running"),
        ("shard-task-1", "Running"),
        ("shard-merge", "Pending"),
        ("launch", "Pending"),
        ("finish", "Running"),
    ]


def test_an_exit_code_is_not_repeated_as_a_message():
    (node, *_) = view_of(started(), created("shard-plan"), *ran("shard-plan", 78, last_words="BadInput: x")).nodes

    assert (node.exit_code, node.message, node.last_words) == (78, "", "BadInput: x")


ASKED = StopRequest(by="ada@box", at=at(5))
ENDED = RunEnded(at=at(6), phase="Failed", message="", exit_code=83)


@pytest.mark.parametrize(
    ("events", "is_stopped"),
    [
        pytest.param([started()], True, id="asked for and not yet seen"),
        pytest.param(
            [started(), StopAsked(at=at(5), by="ada@box", asked_at=at(5), force=False), ENDED], True, id="acted on"
        ),
        pytest.param([started(), ENDED], False, id="came after the end"),
    ],
)
def test_a_stop_counts_only_when_it_could_stop_something(events, is_stopped):
    assert (view_of(*events, asked=ASKED).stop is not None) is is_stopped


def test_a_run_that_no_engine_has_taken_is_pending():
    view = view_of()

    assert (view.phase, view.pid, [node.phase for node in view.nodes]) == ("Pending", None, ["Pending"] * 4)
