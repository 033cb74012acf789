"""What the exit handler is told about the run, as the report needs it."""

import json

import pytest

from components.finish.engine_view import engine_view, failed_nodes

AT = "2026-11-29T12:00:00.000Z"


def a_failure(name: str, phase: str = "Failed", at: str = AT, message: str = "") -> dict[str, str]:
    return {"displayName": name, "phase": phase, "finishedAt": at, "message": message, "templateName": "t"}


def test_failures_come_as_a_json_string_that_holds_a_json_list() -> None:
    text = json.dumps(json.dumps([a_failure("launch", message="exit code 90")]))
    assert [(node.task, node.phase, node.message) for node in failed_nodes(text, workflow="w-1")] == [
        ("launch", "Failed", "exit code 90")
    ]


def test_attempts_of_one_task_become_one_entry_with_the_newest_message() -> None:
    items = [
        a_failure("launch(1)", at="2026-11-29T12:05:00.000Z", message="second"),
        a_failure("launch(0)", message="first"),
        a_failure("launch", at="2026-11-29T12:06:00.000Z", message="No more retries left"),
        a_failure("shard-task(2:2)"),
    ]
    assert [(node.task, node.message) for node in failed_nodes(json.dumps(items), workflow="w-1")] == [
        ("launch", "second"), ("shard-task", ""),
    ]  # fmt: skip


def test_an_attempt_after_which_another_succeeded_and_the_dag_as_a_whole_are_no_failed_tasks() -> None:
    items = [
        a_failure("w-1"),
        a_failure("preflight(0)", message="passing"),
        a_failure("verify(0)"),
        a_failure("verify"),
    ]

    assert [node.task for node in failed_nodes(json.dumps(items), workflow="w-1")] == ["verify"]


@pytest.mark.parametrize("text", ["", "null", '"null"', "{{workflow.failures}}", "[1, {}]", '{"a": 1}'])
def test_failures_that_say_nothing_are_none(text: str) -> None:
    assert failed_nodes(text, workflow="w-1") == ()


@pytest.mark.parametrize(("status", "phase"), [("Succeeded", "Succeeded"), ("Failed", "Failed"), ("", "Error")])
def test_the_status_is_argos(status: str, phase: str) -> None:
    assert engine_view(status, "null", workflow="w-1", stop=None, ended_at=AT).phase == phase
