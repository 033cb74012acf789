"""What is committed for a cluster: bytes that never change by themselves; only run and commit are left to choose."""

import copy
import json
from typing import Any

import pytest
import yaml
from hera.workflows import models as m

from components.errors import BadInput
from infra.argo.content import content_of, is_edited
from infra.argo.view import parameters_of, storage_of
from pipelines.config import TrainConfig, load_config
from pipelines.renders import rendered, template_problems
from pipelines.renders_files import files_of
from pipelines.workflow import compile_manifest

DIGEST = "@sha256:" + "a1" * 32
PLACE = (
    "storage=s3://models/argosy", f"image=registry.example/train{DIGEST}",
    f"platform_image=registry.example/argosy{DIGEST}", "namespace=research",
)  # fmt: skip
SCHEDULE = "gitops={schedules: ['30 3 * * 1-5'], timezone: Europe/Berlin, branch: release/2.x}"


def described(*overrides: str) -> TrainConfig:
    return load_config(recipe="tiny", overrides=[*PLACE, *overrides])


def objects(*overrides: str, kind: str = "all", tags_allowed: bool = False) -> dict[str, dict[str, Any]]:
    config = described(*overrides)
    manifest = compile_manifest(config, storage="file:///srv/argosy")
    return {item["kind"]: item for item in rendered(manifest, config, kind=kind, tags_allowed=tags_allowed)}


def files() -> dict[str, str]:
    return files_of(list(objects(SCHEDULE).values()), kind="all", experiment="tiny", model_version="v1")


def faults(*overrides: str, kind: str = "all", tags_allowed: bool = False) -> list[str]:
    with pytest.raises(BadInput) as raised:
        objects(*overrides, kind=kind, tags_allowed=tags_allowed)
    return [problem.where for problem in raised.value.problems]


def test_rendering_twice_gives_the_same_bytes() -> None:
    assert files() == files()


def test_nothing_of_a_render_gets_its_name_from_a_server() -> None:
    for item in objects(SCHEDULE).values():
        assert item["metadata"]["name"]
    assert "generateName" not in "".join(files().values())


@pytest.mark.parametrize(
    ("kind", "kinds"),
    [
        ("template", {"WorkflowTemplate"}),
        ("cron", {"WorkflowTemplate", "CronWorkflow"}),
        ("event", {"WorkflowTemplate", "WorkflowEventBinding", "ServiceAccount", "Role", "RoleBinding", "Secret"}),
    ],
)
def test_each_kind_brings_what_it_needs_to_start_a_run(kind: str, kinds: set[str]) -> None:
    assert set(objects(SCHEDULE, kind=kind)) == kinds


def test_all_without_a_schedule_is_all_but_the_cron_workflow() -> None:
    assert "CronWorkflow" not in objects()
    assert "WorkflowEventBinding" in objects()


def test_two_tenants_with_one_experiment_share_no_object() -> None:
    def named(namespace: str) -> set[tuple[str, str, str]]:
        items = objects(SCHEDULE, f"namespace={namespace}").values()
        return {(item["metadata"]["namespace"], item["kind"], item["metadata"]["name"]) for item in items}

    assert len(named("one")) == 7
    assert not named("one") & named("two")
    # What it may do, it may do in its own namespace only.
    assert {item["kind"] for item in objects().values()}.isdisjoint({"ClusterRole", "ClusterRoleBinding"})


def test_image_storage_and_command_are_literals_and_two_parameters_are_left() -> None:
    template = objects()["WorkflowTemplate"]
    text = json.dumps(template["spec"]["templates"]) + template["spec"]["podSpecPatch"]

    assert parameters_of(template) == {"run": "", "commit": ""}
    assert {part.split("}}")[0] for part in text.split("{{workflow.parameters.")[1:]} == {"run", "commit"}
    assert storage_of(template) == "s3://models/argosy"
    for item in template["spec"]["templates"]:
        if "container" in item:
            assert item["container"]["image"] == f"registry.example/argosy{DIGEST}"
            assert item["container"]["command"][:2] == ["python", "-m"]


def test_every_stage_checks_the_commit_but_the_exit_handler_reports_on_all_runs() -> None:
    checks = {
        item["name"]: "--commit" in item["container"]["args"]
        for item in objects()["WorkflowTemplate"]["spec"]["templates"]
        if "container" in item
    }

    assert checks.pop("finish") is False
    assert list(checks.values()) == [True] * 7


def test_a_run_says_whose_and_of_what_it_is_whoever_starts_it() -> None:
    told = objects()["WorkflowTemplate"]["spec"]["workflowMetadata"]

    assert told["labels"]["argosy.dev/experiment"] == "tiny"
    assert told["labels"]["argosy.dev/content"] == content_of(objects()["WorkflowTemplate"])
    assert told["labelsFrom"]["argosy.dev/commit"] == {"expression": "workflow.parameters.commit"}


def test_a_scheduled_run_never_overlaps_its_predecessor() -> None:
    spec = objects(SCHEDULE)["CronWorkflow"]["spec"]

    assert spec["concurrencyPolicy"] == "Forbid"
    assert spec["schedules"] == ["30 3 * * 1-5"]
    assert spec["timezone"] == "Europe/Berlin"


def test_a_webhook_may_start_runs_of_its_own_template_and_read_nothing_else() -> None:
    rules = objects()["Role"]["rules"]

    assert rules == [
        {"apiGroups": ["argoproj.io"], "resources": ["workfloweventbindings"], "verbs": ["list"]},
        {"apiGroups": ["argoproj.io"], "resources": ["workflowtemplates"], "resourceNames": ["tiny"], "verbs": ["get"]},
        {"apiGroups": ["argoproj.io"], "resources": ["workflows"], "verbs": ["create"]},
    ]
    assert objects()["Secret"].keys() == {"apiVersion", "kind", "type", "metadata"}


def test_a_render_survives_the_models_of_argo_unchanged() -> None:
    models = {"WorkflowTemplate": m.WorkflowTemplate, "CronWorkflow": m.CronWorkflow}
    for kind, model in models.items():
        item = objects(SCHEDULE)[kind]
        # Fields the models do not know would vanish here.
        assert model.model_validate(item).model_dump(mode="json", by_alias=True, exclude_none=True) == item


def test_what_does_not_fit_a_cluster_is_refused_all_at_once() -> None:
    overrides = ("storage=file:///srv/x", "image=registry.example/train:1", "platform_image=registry.example/argosy:1")

    assert faults(*overrides) == ["storage", "platform_image", "image"]
    assert faults(*overrides, tags_allowed=True) == ["storage"]
    assert faults(kind="cron") == ["gitops.schedules"]
    assert faults("code.folder=src") == ["code"]


def test_a_tag_is_taken_when_it_is_allowed() -> None:
    template = objects("platform_image=registry.example/argosy:1", kind="template", tags_allowed=True)

    assert "registry.example/argosy:1" in json.dumps(template)


def test_a_name_too_long_for_the_pods_of_runs_that_argo_names_is_refused() -> None:
    assert faults(f"experiment={'a' * 37}") == ["experiment"]
    assert objects(f"experiment={'a' * 36}")
    # A template's runs are named by `submit`, shorter.
    assert objects(f"experiment={'a' * 40}", kind="template")


def test_roles_need_a_namespace() -> None:
    config = load_config(recipe="tiny", overrides=PLACE[:3])
    manifest = compile_manifest(config, storage="file:///srv/argosy")

    with pytest.raises(BadInput) as raised:
        rendered(manifest, config, kind="event")
    assert [problem.where for problem in raised.value.problems] == ["namespace"]
    assert "namespace" not in rendered(manifest, config, kind="template")[0]["metadata"]


@pytest.mark.parametrize(
    "gitops", ["schedules: ['61']", "schedules: ['* * * * * *']", "schedules: ['@reboot']", "branch: \"a'b\"",
               "branch: 'a b'", "branch: ../x", "branch: refs/heads/main", "timezone: '; x'", "timezone: Local"]
)  # fmt: skip
def test_what_would_not_be_a_schedule_or_a_branch_is_refused(gitops: str) -> None:
    with pytest.raises(BadInput):
        described(f"gitops={{{gitops}}}")


def test_a_digest_tells_an_edit_from_what_was_rendered() -> None:
    template = objects()["WorkflowTemplate"]
    edited = copy.deepcopy(template)
    edited["spec"]["templates"][0]["container"]["image"] = "registry.example/other:1"
    noted = copy.deepcopy(template)
    noted["metadata"].update(uid="u-1", resourceVersion="7", annotations={"tool": "x"})

    assert not is_edited(template)
    assert not is_edited(noted)
    assert is_edited(edited)
    assert (
        template["metadata"]["labels"]["argosy.dev/content"]
        != objects("seed=2")["WorkflowTemplate"]["metadata"]["labels"]["argosy.dev/content"]
    )


def test_the_lint_finds_in_a_template_what_a_server_would_not() -> None:
    template = objects()["WorkflowTemplate"]
    assert template_problems(template) == []

    template["spec"]["entrypoint"] = "trian"
    assert template_problems(template)[0].where == "spec.entrypoint"


def test_the_kustomization_lists_the_other_files_in_the_order_in_which_they_need_each_other() -> None:
    kustomization = yaml.safe_load(files()["kustomization.yaml"])

    assert kustomization["resources"] == [
        "roles.yaml", "workflow-template.yaml", "cron-workflow.yaml", "event-binding.yaml",
    ]  # fmt: skip
    assert kustomization["sortOptions"] == {"order": "fifo"}
    assert sorted([*kustomization["resources"], "kustomization.yaml"]) == sorted(files())


def test_argo_cd_applies_the_template_before_what_names_it() -> None:
    def wave(kind: str) -> int:
        return int(
            (objects(SCHEDULE)[kind]["metadata"].get("annotations") or {}).get("argocd.argoproj.io/sync-wave", 0)
        )

    assert wave("WorkflowTemplate") < wave("CronWorkflow")
    assert wave("WorkflowTemplate") < wave("WorkflowEventBinding")
