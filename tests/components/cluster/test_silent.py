"""Nodes that do not answer, and a cluster whose control plane was away."""

from components.cluster.silent import silent_nodes


def test_a_node_that_is_not_ready_beside_one_that_is_does_not_answer() -> None:
    assert silent_nodes({"a": False, "b": True, "c": False}) == {"a", "c"}


def test_when_no_node_is_ready_nobody_is_taken_for_lost() -> None:
    assert silent_nodes({"a": False, "b": False}) == frozenset()
    assert silent_nodes({"a": False}) == frozenset()
    assert silent_nodes({}) == frozenset()
