"""Worker pods are rendered whole: nothing is left to a webhook, nothing secret stands in them, names fit."""

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.contracts.gang import GangLimits, GangSpec, ResumeRule
from components.contracts.pods import LostNodeRule, PodOptions
from components.launch.gang_objects import (
    coordinator,
    job_object,
    jobset_object,
    name_problems,
    pod_hostname,
    secret_object,
    service_object,
)
from components.launch.pod_template import GangPlan, WorkflowReference

LIMITS = GangLimits(start_seconds=600.0, run_seconds=3600.0, no_progress_seconds=60.0, stop_seconds=29.5)


def a_plan(*, excluded_nodes: tuple[str, ...] = (), **pods: Any) -> GangPlan:
    spec = GangSpec(
        run="exp-abcde", generation=2, experiment="exp", model_version="v1", storage="s3://bucket/x", data_version="d1",
        num_nodes=3, nproc_per_node=8, command=("python", "train.py"), start="rank", workdir="", env={},
        seed=1, limits=LIMITS, run_seconds_used=0.0, max_restarts=2,
        resume=ResumeRule(source="latest", on_new_data="refuse"),
        memory_per_rank_bytes=0, begin_reason="Start", begin_charged=False, coordinator_host="h", coordinator_port=1,
        coordinator_file="",
    )  # fmt: skip
    options = PodOptions(image="user:1", platform_image="argosy:1", **pods)
    return GangPlan(
        spec, options, "ml", WorkflowReference("exp-abcde", "wf-uid"), agent_variables=("AWS_SECRET_ACCESS_KEY",),
        excluded_nodes=excluded_nodes,
    )  # fmt: skip


def pod_spec(plan: GangPlan) -> dict[str, Any]:
    spec: dict[str, Any] = job_object(plan)["spec"]["template"]["spec"]
    return spec


def containers(plan: GangPlan) -> dict[str, dict[str, Any]]:
    spec = pod_spec(plan)
    return {item["name"]: item for item in [*spec["initContainers"], *spec["containers"]]}


def test_a_jobset_spells_out_everything_its_webhook_would_add() -> None:
    spec = jobset_object(a_plan())["spec"]
    (job,) = spec.pop("replicatedJobs")
    assert spec == {
        "suspend": False,
        "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True, "subdomain": "exp-abcde-g2"},
        "successPolicy": {"operator": "All", "targetReplicatedJobs": []},
        "startupPolicy": {"startupPolicyOrder": "AnyOrder"},
        "failurePolicy": {"maxRestarts": 0, "restartStrategy": "BlockingRecreate", "rules": []},
        "ttlSecondsAfterFinished": 86400,
    }
    template = job.pop("template")["spec"]
    assert job == {"name": "n", "groupName": "default", "replicas": 1}
    pods = template.pop("template")
    assert template == {
        "completionMode": "Indexed", "parallelism": 3, "completions": 3, "backoffLimit": 0, "suspend": False,
        "podReplacementPolicy": "TerminatingOrFailed",
    }  # fmt: skip
    assert pods["spec"]["restartPolicy"] == "Never"


def test_a_gang_belongs_to_its_workflow_without_being_its_controllers_business() -> None:
    for item in (jobset_object(a_plan()), job_object(a_plan()), service_object(a_plan())):
        (owner,) = item["metadata"]["ownerReferences"]
        assert owner == {
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": "exp-abcde", "uid": "wf-uid",
            "controller": False, "blockOwnerDeletion": False,
        }  # fmt: skip
        assert item["metadata"]["labels"]["argosy.dev/gang"] == "exp-abcde-g2"


def test_the_grace_period_covers_the_stop() -> None:
    assert pod_spec(a_plan())["terminationGracePeriodSeconds"] == 40


def test_every_container_meets_pod_security_restricted() -> None:
    spec = pod_spec(a_plan())
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in containers(a_plan()).values():
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert {next(key for key in volume if key != "name") for volume in spec["volumes"]} == {"emptyDir", "secret"}


def test_the_program_gets_neither_token_nor_secret_nor_credentials() -> None:
    program, agent = containers(a_plan())["program"], containers(a_plan())["agent"]
    assert pod_spec(a_plan())["automountServiceAccountToken"] is False
    assert "gang" not in {mount["name"] for mount in program["volumeMounts"]}
    assert "AWS_SECRET_ACCESS_KEY" not in json.dumps(program)
    reference = {"secretKeyRef": {"name": "exp-abcde-g2", "key": "AWS_SECRET_ACCESS_KEY"}}
    assert {"name": "AWS_SECRET_ACCESS_KEY", "valueFrom": reference} in agent["env"]


def test_the_agent_is_a_native_sidecar_and_the_program_runs_under_the_guard() -> None:
    program, agent = containers(a_plan())["program"], containers(a_plan())["agent"]
    assert (agent["restartPolicy"], agent["image"], program["image"]) == ("Always", "argosy:1", "user:1")
    assert program["command"][:4] == ["python3", "-I", "-S", "/argosy/bin/guard.py"]
    assert {"name": "shm", "mountPath": "/dev/shm", "readOnly": False} in program["volumeMounts"]


def test_secrets_values_stand_in_the_secret_only() -> None:
    secret = secret_object(a_plan(), secret="s3cret", variables={"AWS_SECRET_ACCESS_KEY": "k"})
    assert {key: base64.b64decode(value) for key, value in secret["data"].items() if key != "spec.json"} == {
        "AWS_SECRET_ACCESS_KEY": b"k", "secret": b"s3cret",
    }  # fmt: skip
    spec = GangSpec.from_bytes(base64.b64decode(secret["data"]["spec.json"]), where="secret")
    assert spec == a_plan().spec


def test_excluded_nodes_are_avoided_one_expression_each() -> None:
    affinity = pod_spec(a_plan(excluded_nodes=("b", "a")))["affinity"]["nodeAffinity"]
    assert affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] == [
        {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["a"]},
                         {"key": "metadata.name", "operator": "NotIn", "values": ["b"]}]}
    ]  # fmt: skip


def test_only_a_gang_that_may_be_forced_carries_the_janitors_permission() -> None:
    def annotations(policy: Any) -> dict[str, str]:
        plan = a_plan(lost_node=LostNodeRule(policy=policy, after_seconds=90.0))
        found: dict[str, str] = job_object(plan)["spec"]["template"]["metadata"]["annotations"]
        return found

    assert annotations("force_after")["argosy.dev/force-delete-after-seconds"] == "90"
    assert "argosy.dev/force-delete-after-seconds" not in annotations("wait")


def test_agents_meet_under_a_name_that_no_earlier_generation_had() -> None:
    jobset = coordinator("jobset", gang="exp-abcde-g2", host_network=False)
    job = coordinator("job", gang="exp-abcde-g2", host_network=False)
    assert (jobset.host, jobset.port) == ("exp-abcde-g2-n-0-0.exp-abcde-g2", 29400)
    assert job.host == "exp-abcde-g2-0.exp-abcde-g2"


def test_gangs_on_the_hosts_network_do_not_share_a_port() -> None:
    ports = {coordinator("job", gang=f"exp-{i}-g0", host_network=True).port for i in range(4)}
    assert len(ports) == 4


@pytest.mark.parametrize("kind", ["jobset", "job"])
@given(length=st.integers(1, 70), generation=st.integers(0, 120), num_nodes=st.integers(1, 2000))
def test_a_run_name_that_is_accepted_gives_pod_names_that_fit(
    kind: Any, length: int, generation: int, num_nodes: int
) -> None:
    run = "a" * length
    longest = len(pod_hostname(kind, gang=f"{run}-g{generation}", node_rank=num_nodes - 1)) + 6
    assert bool(name_problems(kind, run=run, generation=generation, num_nodes=num_nodes)) == (longest > 63)


def test_every_run_that_submit_names_fits_with_a_thousand_nodes() -> None:
    assert name_problems("jobset", run="a" * 46, generation=9, num_nodes=100) == []
