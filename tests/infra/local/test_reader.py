"""Manifests that the engine refuses, each with the path of the fault, before anything starts."""

import pytest

from components.errors import BadInput
from infra.local.reader import load_program
from tests.infra.local.workflows import a_shell, a_task, a_workflow, retries


def faults_of(manifest):
    with pytest.raises(BadInput) as caught:
        load_program(manifest)
    return [f"{problem.where}: {problem.seen}" for problem in caught.value.problems]


def one_leaf(script="true", *, task=None, **template):
    return a_workflow([task or a_task("a")], [a_shell("a", script, **template)])


MAIN = "spec.templates[main].dag.tasks"
LEAF = "spec.templates[a]"
COMMAND = f"{LEAF}.container.command[2]"
RETRY = f"{LEAF}.retryStrategy"


@pytest.mark.parametrize(
    ("manifest", "fault"),
    [
        (one_leaf("{{=workflow.name}}"), f"{COMMAND}: {{{{=workflow.name}}}} is not known there"),
        (one_leaf("{{retries}}"), f"{COMMAND}: {{{{retries}}}} is not known there"),
        (one_leaf("{{inputs.parameters.x}}"), f"{COMMAND}: {{{{inputs.parameters.x}}}} is not known there"),
        (one_leaf("{{workflow.status}}"), f"{COMMAND}: {{{{workflow.status}}}} is not known there"),
        (one_leaf("{{workflow.parameters.x}}"), f"{COMMAND}: {{{{workflow.parameters.x}}}} is not known there"),
        (one_leaf("{{unclosed"), f"{COMMAND}: holds '{{{{' without '}}}}'"),
        (one_leaf(activeDeadlineSeconds=0), f"{LEAF}.activeDeadlineSeconds: is 0"),
        (
            one_leaf(podSpecPatch="containers: []"),
            f"{LEAF}.podSpecPatch: is not a JSON object whose terminationGracePeriodSeconds is a number",
        ),
        (one_leaf(podSpecPatch='{"tolerations":[]}'), f"{LEAF}.podSpecPatch: sets tolerations"),
        (one_leaf(**retries(1, retryPolicy="OnTransientError")), f"{RETRY}.retryPolicy: is OnTransientError"),
        (
            one_leaf(**retries(1, expression="lastRetry.exitCode == 1")),
            f"{RETRY}.expression: cannot compare string == number",
        ),
        (one_leaf(**retries(1, backoff={"duration": "soon"})), f"{RETRY}.backoff.duration: not a duration"),
        (one_leaf(task=a_task("a", depends="b")), f"{MAIN}[a].depends: there is no task 'b'"),
        (one_leaf(task=a_task("a", depends="a")), f"{MAIN}[a].depends: waits for itself"),
        (one_leaf(task=a_task("a", depends="(")), f"{MAIN}[a].depends: a task is missing at column 2"),
        (one_leaf(task=a_task("onExit", template="a")), f"{MAIN}[onExit]: a task cannot be called 'onExit'"),
        (one_leaf(task=a_task("1a", template="a")), f"{MAIN}[1a]: a task cannot be called '1a'"),
        (one_leaf(task=a_task("a", template="none")), f"{MAIN}[a].template: 'none' is not a container template"),
        (one_leaf(inputs=["x"]), f"{MAIN}[a].arguments: a needs 'x'"),
        (
            one_leaf(task=a_task("a", arguments={"x": "1"})),
            f"{MAIN}[a].arguments.parameters[x]: a has no input of this name",
        ),
        (
            one_leaf(task=a_task("a", arguments={"x": "{{item}}"}), inputs=["x"]),
            f"{MAIN}[a].arguments.parameters[x]: {{{{item}}}} is not known there",
        ),
        (a_workflow([a_task("a")], [a_shell("a", "")], onExit="b"), "spec.onExit: 'b' is neither a container"),
        (a_workflow([a_task("a")], [a_shell("a", "")], entrypoint="a"), "spec.entrypoint: 'a' is not a DAG template"),
        (
            a_workflow([a_task("a"), a_task("a")], [a_shell("a", "")]),
            f"{MAIN}[a]: there are several tasks of this name",
        ),
        (
            a_workflow([a_task("a")], [a_shell("a", ""), a_shell("a", "")]),
            f"{LEAF}: there are several templates of this name",
        ),
        (a_workflow([a_task("a")], [a_shell("a", "")], parallelism=2), "spec.parallelism: unknown field"),
        (
            a_workflow([a_task("a")], [a_shell("a", "")], arguments={"parameters": [{"name": "p"}]}),
            "spec.arguments.parameters[p]: has no value",
        ),
    ],
)
def test_what_cannot_be_honoured_is_refused_with_its_path(manifest, fault):
    assert [found for found in faults_of(manifest) if found.startswith(fault)], faults_of(manifest)


def test_an_output_can_only_be_used_by_tasks_that_wait_for_its_task():
    manifest = a_workflow(
        [a_task("a"), a_task("b", arguments={"x": "{{tasks.a.outputs.parameters.v}}"})],
        [a_shell("a", "", outputs=["v"]), a_shell("b", "", inputs=["x"])],
    )

    assert faults_of(manifest) == [
        f"{MAIN}[b].arguments.parameters[x]: {{{{tasks.a.outputs.parameters.v}}}} is not known there"
    ]
    manifest["spec"]["templates"][0]["dag"]["tasks"][1]["depends"] = "a"
    assert load_program(manifest).tasks[1].ancestors == {"a"}


def test_outputs_lie_in_one_folder():
    manifest = one_leaf(outputs=["v"])
    manifest["spec"]["templates"][1]["outputs"]["parameters"][0]["valueFrom"]["path"] = "/tmp/v"

    assert faults_of(manifest) == [f"{LEAF}.outputs.parameters[v].valueFrom.path: is '/tmp/v'"]


def test_all_faults_are_told_at_once():
    manifest = a_workflow(
        [a_task("a", depends="x"), a_task("b", template="c")],
        [a_shell("a", "{{y}}", activeDeadlineSeconds=0)],
    )

    assert len(faults_of(manifest)) == 4


def test_tasks_come_after_those_they_wait_for():
    manifest = a_workflow(
        [a_task("c", template="t", depends="b"), a_task("b", template="t", depends="a"), a_task("a", template="t")],
        [a_shell("t", "")],
    )
    program = load_program(manifest)

    assert [task.name for task in program.tasks] == ["a", "b", "c"]
    assert program.targets == ("c",)
    assert program.tasks[2].ancestors == {"a", "b"}


def test_a_cycle_is_refused():
    manifest = a_workflow(
        [
            a_task("a", template="t", depends="c"),
            a_task("b", template="t", depends="a"),
            a_task("c", template="t", depends="b"),
        ],
        [a_shell("t", "")],
    )

    assert len(faults_of(manifest)) == 3
