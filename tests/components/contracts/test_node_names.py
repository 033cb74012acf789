"""Argo's names of nodes, as Argo 4.0.5 and the local engine write them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.contracts.node_names import (
    NodeName,
    attempt_node,
    is_exit_node,
    item_node,
    parse_node_name,
    step_node,
)


@pytest.mark.parametrize(
    ("name", "parsed", "stage"),
    [
        ("launch", NodeName("launch", "launch"), "launch"),
        ("launch(0)", NodeName("launch", "launch", attempt=0), "launch"),
        ("launch(12)", NodeName("launch", "launch", attempt=12), "launch"),
        ("shard-task", NodeName("shard-task", "shard-task"), "shard-task"),
        ("shard-task(1:1)", NodeName("shard-task(1:1)", "shard-task", 1, "1"), "shard-task-1"),
        ("shard-task(10:0x0a)(2)", NodeName("shard-task(10:0x0a)", "shard-task", 10, "0x0a", 2), "shard-task-0x0a"),
        ("a(0:b(3:c))", NodeName("a(0:b(3:c))", "a", 0, "b(3:c)"), "a-b(3:c)"),
        ("a(0:x\ny:(5)z)(1)", NodeName("a(0:x\ny:(5)z)", "a", 0, "x\ny:(5)z", 1), "a-x\ny:(5)z"),
        ("onExit[0].finish", NodeName("onExit[0].finish", "onExit[0].finish"), "finish"),
        ("onExit[0].finish(1)", NodeName("onExit[0].finish", "onExit[0].finish", attempt=1), "finish"),
        ("onExit(0)", NodeName("onExit", "onExit", attempt=0), "finish"),
        ("onExit", NodeName("onExit", "onExit"), "finish"),
        ("on-exit", NodeName("on-exit", "on-exit"), "on-exit"),
        ("", NodeName("", ""), ""),
        ("(0)", NodeName("(0)", "(0)"), "(0)"),
        ("launch(x)", NodeName("launch(x)", "launch(x)"), "launch(x)"),
    ],
)
def test_a_name_says_task_item_and_attempt_and_which_stage_it_is(name: str, parsed: NodeName, stage: str) -> None:
    assert parse_node_name(name) == parsed
    assert parsed.stage == stage


def test_names_are_written_as_argo_writes_them() -> None:
    assert item_node("shard-task", 0, "7") == "shard-task(0:7)"
    assert attempt_node("shard-task(0:7)", 1) == "shard-task(0:7)(1)"
    assert step_node("finish") == "onExit[0].finish"
    assert [is_exit_node(node) for node in ("onExit", "onExit[0]", "onExit[0].finish", "onExits", "launch")] == [
        True, True, True, False, False,
    ]  # fmt: skip


TASKS = st.from_regex(r"[A-Za-z][-A-Za-z0-9]{0,8}", fullmatch=True)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(TASKS, st.integers(0, 10**6), st.text(max_size=12), st.integers(0, 99))
def test_what_was_written_is_read_whatever_the_item_holds(task: str, index: int, item: str, attempt: int) -> None:
    node = item_node(task, index, item)

    assert parse_node_name(attempt_node(node, attempt)) == NodeName(node, task, index, item, attempt)
