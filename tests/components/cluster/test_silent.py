"""Nodes that do not answer, and a cluster whose control plane was away."""

import math
from typing import Any

import pytest

from components.cluster.silent import REPORTING_SECONDS, readiness, silent_nodes


def a_node(name: str, *conditions: tuple[str, str]) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": {"zone": "a"}},
        "status": {"conditions": [{"type": kind, "status": status} for kind, status in conditions]},
    }


def silent(*, seconds_since_away: float = math.inf, **ready: str) -> frozenset[str]:
    nodes = [readiness(a_node(name, ("DiskPressure", "False"), ("Ready", said))) for name, said in ready.items()]
    return silent_nodes(nodes, seconds_since_away=seconds_since_away)


@pytest.mark.parametrize(("said", "is_ready"), [("True", True), ("False", False), ("Unknown", False)])
def test_of_a_node_its_name_and_whether_it_is_ready_are_kept(said: str, is_ready: bool) -> None:
    assert readiness(a_node("a", ("MemoryPressure", "True"), ("Ready", said))) == {"name": "a", "is_ready": is_ready}


@pytest.mark.parametrize("status", [{}, {"status": None}, {"status": {"conditions": None}}, a_node("a")])
def test_a_node_of_which_nothing_is_said_yet_counts_as_ready(status: dict[str, Any]) -> None:
    assert readiness({"metadata": {"name": "a"}, **status}) == {"name": "a", "is_ready": True}


def test_a_node_that_is_not_ready_beside_one_that_is_does_not_answer() -> None:
    assert silent(a="False", b="True", c="Unknown") == {"a", "c"}


def test_when_no_node_is_ready_nobody_is_taken_for_lost() -> None:
    assert silent(a="Unknown", b="Unknown") == frozenset()
    assert silent(a="False") == frozenset()
    assert silent() == frozenset()


def test_no_node_is_taken_for_lost_before_it_could_report_to_a_server_that_was_away() -> None:
    assert silent(a="Unknown", b="True", seconds_since_away=REPORTING_SECONDS - 1) == frozenset()
    assert silent(a="Unknown", b="True", seconds_since_away=REPORTING_SECONDS + 1) == {"a"}
