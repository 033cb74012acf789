"""Each rule of the lint fires on a manifest that breaks it and nothing else, and names the place."""

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest

from infra.lint.deadlines import critical_path_seconds
from infra.lint.manifest import lint
from infra.workflow import load_workflow


def a_leaf(name: str, **changes: Any) -> dict[str, Any]:
    return {
        "name": name,
        "activeDeadlineSeconds": 100,
        "container": {"image": "argosy:1", "command": ["python"], "args": ["--attempt", "{{retries}}"]},
        "retryStrategy": {
            "limit": 2,
            "retryPolicy": "Always",
            "expression": "lastRetry.exitCode == '75'",
            "backoff": {"duration": "3s", "factor": 3, "cap": "60s"},
        },
        **changes,
    }


def a_manifest() -> dict[str, Any]:
    """Plan and check, then train; finish at the exit. The slowest path: 3 * 100 + 12 s, twice."""
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"generateName": "tiny-", "labels": {"argosy.dev/experiment": "tiny"}},
        "spec": {
            "entrypoint": "main",
            "onExit": "at-the-end",
            "activeDeadlineSeconds": 624,
            "arguments": {"parameters": [{"name": "storage", "value": "file:///x"}]},
            "templates": [
                a_leaf("plan", outputs={"parameters": [{"name": "plan_id", "valueFrom": {"path": "/argosy/out/p"}}]}),
                a_leaf("train", inputs={"parameters": [{"name": "plan_id"}]}),
                a_leaf("check"),
                a_leaf("finish"),
                {
                    "name": "main",
                    "dag": {
                        "tasks": [
                            {"name": "plan", "template": "plan"},
                            {"name": "check", "template": "check"},
                            {
                                "name": "train",
                                "template": "train",
                                "depends": "plan && check",
                                "arguments": {
                                    "parameters": [
                                        {"name": "plan_id", "value": "{{tasks.plan.outputs.parameters.plan_id}}"}
                                    ]
                                },
                            },
                        ]
                    },
                },
                {"name": "at-the-end", "steps": [[{"name": "finish", "template": "finish"}]]},
            ],
        },
    }


PLAN, TRAIN, CHECK, FINISH, MAIN, AT_THE_END = range(6)


def broken(change: Callable[[dict[str, Any]], Any]) -> list[str]:
    manifest = copy.deepcopy(a_manifest())
    change(manifest["spec"])
    return [str(problem) for problem in lint(manifest)]


def template(index: int, **changes: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda spec: spec["templates"][index].update(changes)


def without(index: int, field: str) -> Callable[[dict[str, Any]], Any]:
    return lambda spec: spec["templates"][index].pop(field)


def task(index: int, **changes: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda spec: spec["templates"][MAIN]["dag"]["tasks"][index].update(changes)


def retry(index: int, **changes: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda spec: spec["templates"][index]["retryStrategy"].update(changes)


def argument(text: str) -> Callable[[dict[str, Any]], Any]:
    return lambda spec: spec["templates"][PLAN]["container"]["args"].append(text)


def value(text: str) -> Callable[[dict[str, Any]], Any]:
    return task(2, arguments={"parameters": [{"name": "plan_id", "value": text}]})


def test_a_sound_manifest_passes() -> None:
    assert lint(a_manifest()) == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (template(PLAN, timeout="3m"), "spec.templates[plan].timeout: unknown field"),
        (template(PLAN, sidecars=[]), "spec.templates[plan].sidecars: unknown field"),
        (lambda spec: spec.update(parallelism=3), "spec.parallelism: unknown field"),
        (lambda spec: spec.update(templateDefaults={}), "spec.templateDefaults: unknown field; it is merged"),
        (task(1, dependencies=["plan"]), "dag.tasks[check].dependencies: unknown field; use depends"),
        (
            lambda spec: spec["templates"][TRAIN]["retryStrategy"]["backoff"].update(maxDuration="1h"),
            "spec.templates[train].retryStrategy.backoff.maxDuration: unknown field; it counts from the first attempt",
        ),
        (lambda spec: spec.update(entrypoint="mian"), "spec.entrypoint: there is no template 'mian'"),
        (lambda spec: spec.update(onExit="fin"), "spec.onExit: there is no template 'fin'"),
        (task(1, template="chekc"), "dag.tasks[check].template: there is no template 'chekc'"),
        (task(2, depends="plan && chekc"), "dag.tasks[train].depends: there is no task 'chekc'"),
        (task(2, depends="plan && check &&"), "dag.tasks[train].depends: "),
        (task(1, depends="train"), "spec.templates[main].dag: tasks wait for each other in a circle"),
        (task(1, template="main"), "spec.entrypoint: a DAG contains itself"),
        (task(2, arguments={}), "input plan_id of template train is not given"),
        (task(1, arguments={"parameters": [{"name": "x", "value": "1"}]}), "template check has no such input"),
        (value("{{tasks.plan.outputs.parameters.plan}}"), "is not an output of a task that this one waits for"),
        (value("{{tasks.train.outputs.parameters.plan_id}}"), "is not an output of a task that this one waits for"),
        (value("{{item}}"), "{{item}} is not declared here"),
        (value("{{=1+1}}"), "the expression {{=1+1}}"),
        (argument("{{workflow.parameters.storag}}"), "{{workflow.parameters.storag}} is not declared here"),
        (argument("{{inputs.parameters.plan_id}}"), "{{inputs.parameters.plan_id}} is not declared here"),
        (argument("{{workflow.status}}"), "{{workflow.status}} is not declared here"),
        (argument("a {{x}} b"), "container.args[2]: {{x}} is not declared here"),
        (argument("a {{x"), "container.args[2]: `{{` without `}}`"),
        (template(PLAN, podSpecPatch="{{x}}"), "spec.templates[plan].podSpecPatch: the tag {{x}}"),
        (lambda spec: spec.update(entrypoint="{{x}}"), "spec.entrypoint: the tag {{x}}"),
        (lambda spec: spec["templates"].append(a_leaf("idle")), "spec.templates[idle]: no task uses it"),
        (lambda spec: spec["templates"].append(a_leaf("plan")), "spec.templates[plan]: there are 2 of that name"),
        (
            lambda spec: spec["templates"][MAIN]["dag"]["tasks"].append({"name": "plan", "template": "plan"}),
            "spec.templates[main].dag.tasks[plan]: there are 2 of that name",
        ),
        (lambda spec: spec.update(entrypoint="plan" * 16), "there is no template"),
        (template(PLAN, name="p" * 64), f"spec.templates[{'p' * 64}]: "),
        (task(1, name="1st"), "spec.templates[main].dag.tasks[1st]: '1st' (3 characters) is no name here"),
        (task(1, name="c" * 64), "(64 characters) is no name here"),
        (template(PLAN, metadata={"labels": {"a": "x y"}}), "spec.templates[plan].metadata.labels[a]: 'x y'"),
        (without(TRAIN, "activeDeadlineSeconds"), "spec.templates[train].activeDeadlineSeconds: missing"),
        (
            template(TRAIN, activeDeadlineSeconds=2**31),
            "spec.templates[train].activeDeadlineSeconds: 2147483648 s; Kub",
        ),
        (without(FINISH, "activeDeadlineSeconds"), "spec.templates[finish].activeDeadlineSeconds: missing"),
        (without(TRAIN, "retryStrategy"), "spec.templates[train].retryStrategy: missing"),
        (retry(TRAIN, retryPolicy=None), "spec.templates[train].retryStrategy: policy and expression are not both set"),
        (retry(TRAIN, expression=None), "spec.templates[train].retryStrategy: policy and expression are not both set"),
        (retry(TRAIN, backoff=None), "spec.templates[train].retryStrategy.backoff: missing"),
        (retry(TRAIN, expression="exitCode == 75"), "spec.templates[train].retryStrategy.expression: "),
        (retry(TRAIN, backoff={"duration": "3 weeks"}), "spec.templates[train].retryStrategy.backoff.duration: "),
        (template(MAIN, activeDeadlineSeconds=9), "spec.templates[main].activeDeadlineSeconds: stands on a DAG"),
        (
            template(MAIN, retryStrategy={"limit": 1, "retryPolicy": "Always"}),
            "spec.templates[main].retryStrategy: stands on a DAG",
        ),
        (
            lambda spec: spec.update(onExit="finish"),
            "spec.onExit: 'finish' has a retryStrategy: Argo fails its attempts once the Workflow's deadline",
        ),
        (lambda spec: spec.update(onExit="main"), "spec.onExit: 'main' is a DAG: Argo fails it as soon as the run is"),
        (
            lambda spec: spec.update(onExit="check"),
            "spec.templates[at-the-end].steps: stands elsewhere than in the exit handler",
        ),
        (
            template(AT_THE_END, annotations={"workflows.argoproj.io/display-name": "finish"}),
            "spec.templates[at-the-end].annotations[workflows.argoproj.io/display-name]: hides from Argo",
        ),
        (
            template(AT_THE_END, retryStrategy={"limit": 1}),
            "spec.templates[at-the-end].retryStrategy: stands on a step",
        ),
        (
            template(AT_THE_END, steps=[[{"name": "finish", "template": "fin"}]]),
            "spec.templates[at-the-end].steps[finish].template: there is no template 'fin'",
        ),
        (
            template(AT_THE_END, steps=[[{"name": "finish", "template": "finish"}], []]),
            "spec.templates[at-the-end].steps: ",
        ),
        (
            template(FINISH, inputs={"parameters": [{"name": "x"}]}),
            "spec.templates[finish].inputs[x]: nobody gives it a value",
        ),
        (
            task(2, depends="plan.Failed && check"),
            "dag.tasks[train].depends: 'plan.Failed && check': a last task that follows a failure turns",
        ),
        (task(2, depends="plan && check.Errored"), "a last task that follows a failure turns"),
        (lambda spec: spec.pop("activeDeadlineSeconds"), "spec.activeDeadlineSeconds: missing"),
        (
            lambda spec: spec.update(activeDeadlineSeconds=623),
            "spec.activeDeadlineSeconds: 623 s, but the critical path takes up to 624 s",
        ),
        (retry(CHECK, limit=3), "624 s, but the critical path takes up to 751 s"),
        (template(PLAN, podSpecPatch="["), "spec.templates[plan].podSpecPatch: not JSON"),
        (template(PLAN, podSpecPatch='{"hostNetwork":true}'), "patches more than terminationGracePeriodSeconds"),
        (argument("x" * 32769), "spec.templates[plan].container.args[2]: 32769 bytes; at most 32768"),
        (
            lambda spec: spec["templates"][PLAN]["container"]["args"].extend(["x" * 30_000] * 9),
            "manifest: ",
        ),
        (
            lambda spec: spec["templates"].extend(a_leaf(f"t{number}") for number in range(195)),
            "spec.templates: 201 items; Argo admits 200",
        ),
        (
            lambda spec: spec["templates"][MAIN]["dag"]["tasks"].extend(
                {"name": f"t{number}", "template": "check"} for number in range(198)
            ),
            "spec.templates[main].dag.tasks: 201 items; Argo admits 200",
        ),
        (
            lambda spec: spec["arguments"]["parameters"].extend(
                {"name": f"p{number}", "value": ""} for number in range(500)
            ),
            "spec.arguments.parameters: 501 items; Argo admits 500",
        ),
    ],
)
def test_a_fault_is_refused_with_its_place(change: Callable[[dict[str, Any]], Any], expected: str) -> None:
    problems = broken(change)

    assert any(expected in problem for problem in problems), problems


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({}, "metadata: name and generateName: exactly one is needed"),
        ({"name": "a", "generateName": "a-"}, "metadata: name and generateName: exactly one is needed"),
        ({"name": "a" * 64}, "metadata.name: "),
        ({"name": "Tiny"}, "metadata.name: 'Tiny' (4 characters) is no object name"),
        ({"generateName": "a" * 58 + "-"}, "metadata.generateName: "),
        ({"name": "a", "labels": {"x": "a" * 64}}, "metadata.labels[x]: "),
        ({"name": "a", "annotations": {"x": "{{y}}"}}, "metadata.annotations.x: the tag {{y}}"),
    ],
)
def test_a_fault_of_the_metadata_is_refused(metadata: dict[str, Any], expected: str) -> None:
    problems = [str(problem) for problem in lint({**a_manifest(), "metadata": metadata})]

    assert any(problem.startswith(expected) for problem in problems), problems


def test_all_faults_are_told_at_once() -> None:
    def change(spec: dict[str, Any]) -> None:
        template(TRAIN, activeDeadlineSeconds=None)(spec)
        task(1, template="nobody")(spec)
        argument("{{x}}")(spec)

    assert len(broken(change)) == 4  # and `check` is now used by nobody


def test_the_exit_handler_may_ask_how_the_workflow_ended() -> None:
    assert broken(template(FINISH, container={"image": "a", "command": ["b"], "args": ["{{workflow.status}}"]})) == []


def test_the_critical_path_takes_the_slower_of_two_branches_with_every_backoff() -> None:
    # 3 attempts of 100 s and waits of 3 and 9 s, for plan or check, then for train.
    assert math.isclose(critical_path_seconds(load_workflow(a_manifest())), 624.0)
