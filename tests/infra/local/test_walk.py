"""The walk without processes: what a DAG comes to, given how its containers end."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.contracts.clock import utc_text
from infra.local.events import AttemptEnded, AttemptStarted, NodeEnded
from infra.local.reader import load_program
from infra.local.state import Fold
from infra.local.walk import Walk, dag_phase
from tests.infra.local.workflows import a_shell, a_task, a_workflow, retries

START = datetime(2026, 11, 29, tzinfo=UTC)


def play(manifest, endings, *, slots=99):
    """Walk to the end; `endings` maps a node to the phases of its attempts (the last one repeats)."""
    program, fold, now = load_program(manifest), Fold(), START
    for _ in range(1000):
        walk = Walk(program, fold, fold.apply, now, {})
        walk.tasks()
        phase = dag_phase(program, fold.nodes)
        if phase != "Running":
            return phase, {name: node.phase for name, node in fold.nodes.items()}, fold
        for ready in walk.ready[:slots]:
            phases = endings.get(ready.node, ["Succeeded"])
            end = phases[min(ready.attempt, len(phases) - 1)]
            at = utc_text(now)
            fold.apply(AttemptStarted(at=at, node=ready.node, attempt=ready.attempt, pid=1, process_started=1))
            fold.apply(
                AttemptEnded(
                    at=at, node=ready.node, attempt=ready.attempt, phase=end, exit_code=0 if end == "Succeeded" else 1,
                    message="",
                )
            )  # fmt: skip
        now += timedelta(seconds=100)
    raise AssertionError("the walk does not end")


def a_graph(depends, **dag):
    tasks = [a_task(name, template="t", **({"depends": text} if text else {})) for name, text in depends.items()]
    return a_workflow(tasks, [a_shell("t", "")], dag=dag)


@pytest.mark.parametrize(
    ("depends", "failed", "phase", "nodes"),
    [
        ({"a": "", "b": "a"}, [], "Succeeded", {"a": "Succeeded", "b": "Succeeded"}),
        ({"a": "", "b": "a"}, ["a"], "Failed", {"a": "Failed", "b": "Omitted"}),
        ({"a": "", "b": "a", "c": "b"}, ["a"], "Failed", {"a": "Failed", "b": "Omitted", "c": "Omitted"}),
        # An omitted leaf inherits its branch's phase, and a leaf that ran wins over its ancestors' failure.
        ({"a": "", "b": "a.Failed"}, [], "Succeeded", {"a": "Succeeded", "b": "Omitted"}),
        ({"a": "", "b": "a.Failed"}, ["a"], "Succeeded", {"a": "Failed", "b": "Succeeded"}),
        ({"a": "", "b": "a.Failed", "c": "a"}, ["a"], "Failed", {"a": "Failed", "b": "Succeeded", "c": "Omitted"}),
        ({"a": "", "b": "", "c": "a && b"}, ["b"], "Failed", {"a": "Succeeded", "b": "Failed", "c": "Omitted"}),
        ({"a": "", "b": "", "c": "a || b"}, ["b"], "Succeeded", {"a": "Succeeded", "b": "Failed", "c": "Succeeded"}),
        ({"a": "", "b": "a", "c": "b.Omitted"}, ["a"], "Succeeded", {"a": "Failed", "b": "Omitted", "c": "Succeeded"}),
    ],
)
def test_a_dag_comes_to_what_its_targets_came_to(depends, failed, phase, nodes):
    result, phases, _ = play(a_graph(depends), {name: ["Failed"] for name in failed})

    assert (result, phases) == (phase, nodes)


@pytest.mark.parametrize(("fail_fast", "phase"), [(True, "Error"), (False, "Failed")])
def test_fail_fast_takes_the_first_bad_target_and_otherwise_the_last(fail_fast, phase):
    result, _, _ = play(a_graph({"a": "", "b": ""}, failFast=fail_fast), {"a": ["Error"], "b": ["Failed"]})

    assert result == phase


@pytest.mark.parametrize(
    ("endings", "group"),
    [
        ({}, "Succeeded"),
        ({"g(1:1)": ["Failed"]}, "Failed"),
        ({"g(0:0)": ["Failed"], "g(1:1)": ["Error"]}, "Error"),
        ({"g(0:0)": ["Error"], "g(1:1)": ["Failed"]}, "Failed"),
    ],
)
def test_a_sequence_has_the_phase_of_its_last_bad_item(endings, group):
    manifest = a_workflow([a_task("g", withSequence={"count": 2})], [a_shell("g", "")])

    result, phases, _ = play(manifest, endings)

    assert (result, phases["g"]) == (group, group)


def test_a_retry_that_succeeds_in_the_end_counts_as_success():
    manifest = a_workflow([a_task("a")], [a_shell("a", "", **retries(2))])

    result, _, fold = play(manifest, {"a": ["Failed", "Failed", "Succeeded"]})

    assert result == "Succeeded"
    assert [attempt.attempt for attempt in fold.nodes["a"].attempts] == [0, 1, 2]


_NAMES = ("a", "b", "c", "d", "e")
_PHASES = st.sampled_from(["Succeeded", "Failed", "Error"])


@st.composite
def _graphs(draw):
    depends = {}
    for index, name in enumerate(_NAMES):
        earlier = draw(st.lists(st.sampled_from(_NAMES[:index]), unique=True, max_size=3)) if index else []
        results = [draw(st.sampled_from(["", ".Failed", ".Succeeded", ".Omitted"])) for _ in earlier]
        glue = draw(st.sampled_from([" && ", " || "]))
        depends[name] = glue.join(task + result for task, result in zip(earlier, results, strict=True))
    return depends


@settings(max_examples=60, deadline=None)
@given(_graphs(), st.fixed_dictionaries(dict.fromkeys(_NAMES, _PHASES)), st.integers(1, 3))
def test_every_graph_ends_with_every_node_over_in_any_order_of_ending(depends, phases, slots):
    endings = {name: [phase] for name, phase in phases.items()}

    wide = play(a_graph(depends), endings)
    narrow = play(a_graph(depends), endings, slots=slots)

    assert wide[:2] == narrow[:2]
    assert set(wide[1]) == set(_NAMES)
    assert all(phase in (phases[name], "Omitted") for name, phase in wide[1].items())


@settings(max_examples=30, deadline=None)
@given(_graphs(), st.fixed_dictionaries(dict.fromkeys(_NAMES, _PHASES)), st.data())
def test_a_walk_cut_short_anywhere_and_begun_again_decides_the_same(depends, phases, data):
    program = load_program(a_graph(depends))
    _, expected, _ = play(a_graph(depends), {name: [phase] for name, phase in phases.items()})
    again = Fold()
    # Only the endings of containers are facts; every decision is taken again from them.
    for _ in range(20):
        Walk(program, again, again.apply, START, {}).tasks()
        pending = [node for node in again.nodes.values() if not node.is_fulfilled]
        if not pending:
            break
        node = data.draw(st.sampled_from(pending))
        again.apply(NodeEnded(at=utc_text(START), node=node.name, phase=phases[node.name], message=""))

    assert {name: node.phase for name, node in again.nodes.items()} == expected
