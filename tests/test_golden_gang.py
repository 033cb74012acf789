"""Every field of the cluster acts on the gang's pods, of both backends; `make golden` rewrites what they look like."""

from pathlib import Path
from typing import Any

import pytest

from components.contracts.gang import GangSpec
from components.launch.gang_objects import coordinator, job_object, jobset_object, secret_object, service_object
from components.launch.pod_template import GangPlan, WorkflowReference
from pipelines.config import TrainConfig, load_config
from pipelines.manifest_text import to_yaml
from pipelines.specs import launch_spec

GOLDEN = Path(__file__).parent / "golden" / "gang"


def described() -> TrainConfig:
    return load_config(GOLDEN / "run.yaml")


def a_plan(config: TrainConfig, kind: str) -> GangPlan:
    """The second generation, which avoids a node."""
    told = launch_spec(config)
    assert told.pods is not None
    meeting = coordinator(
        "jobset" if kind == "jobset" else "job", gang="everything-abcde-g1", host_network=told.pods.host_network
    )
    spec = GangSpec(
        run="everything-abcde", generation=1, experiment=told.experiment, model_version=told.model_version,
        storage="s3://models/argosy", data_version="d" * 64, num_nodes=told.num_nodes,
        nproc_per_node=told.nproc_per_node,
        command=told.command, start=told.start, workdir=told.workdir, env=told.env, seed=told.seed,
        limits=told.limits, run_seconds_used=0.0, max_restarts=told.max_restarts, checkpoint=told.checkpoint,
        resume=told.resume, memory_per_rank_bytes=told.memory_per_rank_bytes, begin_reason="NodeLost",
        begin_charged=True, coordinator_host=meeting.host, coordinator_port=meeting.port, coordinator_file="",
    )  # fmt: skip
    images = {"image": config.image, "platform_image": config.platform_image}
    return GangPlan(
        spec, told.pods.model_copy(update=images), "ml", WorkflowReference("everything-abcde", "uid-1"),
        agent_variables=("AWS_REGION",), excluded_nodes=("node-7",),
    )  # fmt: skip


def rendered(kind: str) -> list[dict[str, Any]]:
    plan = a_plan(described(), kind)
    secret = secret_object(plan, secret="0" * 64, variables={"AWS_REGION": "eu-central-1"})
    if kind == "jobset":
        return [secret, jobset_object(plan)]
    return [secret, service_object(plan), job_object(plan)]


@pytest.mark.parametrize("kind", ["jobset", "job"])
def test_the_gang_of_a_description_with_everything_is_its_golden_one(
    kind: str, request: pytest.FixtureRequest
) -> None:  # fmt: skip
    path = GOLDEN / f"{kind}.yaml"
    text = "".join(f"---\n{to_yaml(item)}" for item in rendered(kind))
    if request.config.getoption("--regenerate"):
        path.write_text(text, encoding="ascii")

    assert text == path.read_text(encoding="ascii")


def test_both_backends_have_the_same_pods() -> None:
    (_, jobset), (_, _, job) = rendered("jobset"), rendered("job")
    pods = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    others = job["spec"]["template"]
    assert others["spec"].pop("subdomain") == "everything-abcde-g1"

    assert pods == others


def test_every_alternative_of_a_patched_affinity_avoids_the_excluded_node() -> None:
    spec = rendered("job")[-1]["spec"]["template"]["spec"]
    terms = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]

    avoided = [{"key": "metadata.name", "operator": "NotIn", "values": ["node-7"]}]
    assert [(term["matchExpressions"][0]["values"], term["matchFields"]) for term in terms] == [
        (["a"], avoided), (["b"], avoided),
    ]  # fmt: skip
