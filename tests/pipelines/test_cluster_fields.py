"""Fields of the run description for clusters: each acts in the Workflow or in what the launch stage is told."""

import json
from typing import Any

import pytest

from components.contracts.pods import PodOptions
from components.errors import BadInput
from infra.workflow import without_meaning
from pipelines.config import load_config
from pipelines.pod_options import pod_options
from pipelines.workflow import compile_manifest


def compiled(*overrides: str) -> dict[str, Any]:
    return compile_manifest(load_config(recipe="tiny", overrides=overrides), storage="file:///x")


def leaf(manifest: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(item for item in manifest["spec"]["templates"] if item["name"] == name)
    return found


def options(*overrides: str) -> PodOptions:
    return pod_options(load_config(recipe="tiny", overrides=overrides))


def test_names_of_the_cluster_reach_the_workflow() -> None:
    manifest = compiled(
        "namespace=ml", "service_account=trainer", "image_pull_secrets=[registry, mirror]", "argo.instance_id=team-a"
    )

    assert manifest["metadata"]["namespace"] == "ml"
    assert manifest["metadata"]["labels"]["workflows.argoproj.io/controller-instanceid"] == "team-a"
    assert manifest["spec"]["imagePullSecrets"] == [{"name": "registry"}, {"name": "mirror"}]
    assert manifest["spec"]["serviceAccountName"] == "trainer"
    assert leaf(manifest, "launch")["serviceAccountName"] == "trainer"


def test_only_launch_and_finish_may_handle_the_gangs_objects() -> None:
    manifest = compiled()
    accounts = {item["name"]: item.get("serviceAccountName") for item in manifest["spec"]["templates"]}
    hidden = {
        item["name"]: [mount["mountPath"] for mount in item["container"].get("volumeMounts", [])]
        for item in manifest["spec"]["templates"]
        if "container" in item
    }

    assert manifest["spec"]["serviceAccountName"] == "argosy-stage"
    assert {name for name, account in accounts.items() if account} == {"launch", "finish"}
    assert accounts["launch"] == accounts["finish"] == "argosy-launcher"
    token = ["/var/run/secrets/kubernetes.io/serviceaccount"]
    assert hidden == {
        "shard-plan": token, "shard-task": token, "shard-merge": token, "preflight": token, "launch": [],
        "verify": token, "retain": token, "finish": [],
    }  # fmt: skip


def test_each_stage_asks_for_what_its_section_says() -> None:
    manifest = compiled("shard.resources={cpu: '2', memory: 3GiB}", "retain.resources.memory=100MB")

    assert leaf(manifest, "shard-task")["container"]["resources"] == {
        "requests": {"cpu": "2", "memory": "3Gi"}, "limits": {"memory": "3Gi"},
    }  # fmt: skip
    assert leaf(manifest, "retain")["container"]["resources"]["limits"] == {"memory": "100000000"}
    assert leaf(manifest, "launch")["container"]["resources"]["limits"] == {"memory": "512Mi"}


def test_stages_are_placed_where_the_description_says() -> None:
    spec = compiled("placement={node_selector: {pool: cpu}, tolerations: [{key: spot, effect: NoSchedule}]}")["spec"]

    assert spec["nodeSelector"] == {"pool": "cpu"}
    assert spec["tolerations"] == [{"effect": "NoSchedule", "key": "spot", "operator": "Exists"}]


def test_credentials_and_certificates_reach_the_stages_and_the_agents() -> None:
    storage = ("storage=s3://bucket/x", "storage_options={credentials_secret: s3, ca_secret: ca}")
    patch = json.loads(compiled(*storage)["spec"]["podSpecPatch"])

    assert any(item["name"] == "AWS_SECRET_ACCESS_KEY" for item in patch["containers"][0]["env"])
    assert {"name": "ca", "secret": {"secretName": "ca"}} in patch["volumes"]
    assert options(*storage).ca_secret == "ca"


def test_the_way_out_and_the_certificates_reach_every_stage() -> None:
    patch = json.loads(compiled("proxy={https: 'http://p:1', no_proxy: [s3.local]}", "ca_bundle={config_map: ours}")
                       ["spec"]["podSpecPatch"])  # fmt: skip
    main = patch["containers"][0]
    values = {item["name"]: item.get("value") for item in main["env"]}

    assert values["HTTPS_PROXY"] == values["https_proxy"] == "http://p:1"
    assert values["NO_PROXY"] == "localhost,127.0.0.1,$(KUBERNETES_SERVICE_HOST),.svc,.cluster.local,s3.local"
    assert values["SSL_CERT_FILE"] == values["AWS_CA_BUNDLE"] == "/argosy/trust/ca.crt"
    assert "HTTP_PROXY" not in values
    assert {"name": "trust", "mountPath": "/argosy/trust", "readOnly": True} in main["volumeMounts"]
    assert {"name": "trust", "configMap": {"name": "ours", "items": [{"key": "ca.crt", "path": "ca.crt"}]}} in patch[
        "volumes"
    ]


def test_the_storages_own_certificates_come_before_the_others() -> None:
    storage = ("storage=s3://bucket/x", "storage_options.ca_secret=ca", "ca_bundle.config_map=ours")
    main = json.loads(compiled(*storage)["spec"]["podSpecPatch"])["containers"][0]
    values = {item["name"]: item.get("value") for item in main["env"]}

    assert (values["AWS_CA_BUNDLE"], values["SSL_CERT_FILE"]) == ("/argosy/ca/ca.crt", "/argosy/trust/ca.crt")


def test_what_the_description_says_about_the_gangs_pods_reaches_the_launch_stage() -> None:
    told = options(
        "image_pull_secrets=[registry]",
        "launch.resources={cpu: '16', memory: 64GiB, shm: 8GiB, devices: {nvidia.com/gpu: 8}}",
        "launch.secrets={HF_TOKEN: {secret: hub, key: token}}",
        "launch.env_from=[{secret: wandb, prefix: WB_}, {config_map: common}]",
        "launch.volumes=[{path: /data/, claim: corpus, read_only: true}, {path: /fast, scratch: 100GiB}]",
        "launch.node_selector={pool: gpu}",
        "launch.tolerations=[{key: nvidia.com/gpu}, {key: team, operator: Equal, value: ml}]",
        "launch.annotations={example.com/rack: near}",
        "launch.priority_class=high",
        "launch.scheduler_name=bins",
        "launch.runtime_class=nvidia",
        "launch.host_network=true",
        "launch.lost_node={policy: wait, after: 5m}",
    )

    assert told.as_json() == {
        **PodOptions().as_json(),
        "image_pull_secrets": ["registry"],
        "resources": {
            "requests": {"memory": "64Gi", "nvidia.com/gpu": "8", "cpu": "16"},
            "limits": {"memory": "64Gi", "nvidia.com/gpu": "8"},
        },
        "shm_bytes": 8 * 2**30,
        "env": [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}}],
        "env_from": [{"prefix": "WB_", "secretRef": {"name": "wandb"}}, {"configMapRef": {"name": "common"}}],
        "mounts": [
            {
                "name": "volume-0", "path": "/data", "read_only": True,
                "source": {"persistentVolumeClaim": {"claimName": "corpus", "readOnly": True}},
            },
            {"name": "volume-1", "path": "/fast", "read_only": False, "source": {"emptyDir": {"sizeLimit": "100Gi"}}},
        ],
        "node_selector": {"pool": "gpu"},
        "tolerations": [
            {"key": "nvidia.com/gpu", "operator": "Exists"}, {"key": "team", "operator": "Equal", "value": "ml"},
        ],
        "annotations": {"example.com/rack": "near"},
        "priority_class": "high",
        "scheduler_name": "bins",
        "runtime_class": "nvidia",
        "host_network": True,
        "lost_node": {"policy": "wait", "after_seconds": 300.0},
    }  # fmt: skip


def test_without_resources_a_gangs_pod_asks_for_the_memory_its_ranks_need() -> None:
    asked = options("launch.nproc_per_node=4", "preflight.memory_per_rank=1GiB").resources

    assert asked == {"requests": {"memory": "4Gi"}}


def test_the_images_are_handed_to_the_launcher_as_workflow_parameters() -> None:
    arguments = leaf(compiled(), "launch")["container"]["args"]

    assert "image={{workflow.parameters.image}}" in arguments
    assert "platform_image={{workflow.parameters.platform_image}}" in arguments


@pytest.mark.parametrize("backend", ["auto", "process", "jobset", "job"])
def test_what_the_gang_is_made_of_reaches_the_launcher(backend: str) -> None:
    arguments = leaf(compiled(f"launch.backend={backend}"), "launch")["container"]["args"]

    assert json.loads(arguments[arguments.index("--spec") + 1])["backend"] == backend


def test_a_pod_that_stays_pending_names_the_limit_the_janitor_keeps() -> None:
    assert compiled()["spec"]["podMetadata"]["annotations"] == {"argosy.dev/pending-limit-seconds": "1800"}


def test_the_exit_handler_is_one_step_called_finish_and_nothing_renames_the_node_by_which_argo_knows_it() -> None:
    assert leaf(compiled(), "at-the-end") == {
        "name": "at-the-end", "steps": [[{"name": "finish", "template": "finish"}]],
    }  # fmt: skip
    assert "annotations" not in leaf(compiled(), "finish")


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("namespace=Ml", "namespace: "),
        ("service_account='a b'", "service_account: "),
        ("image_pull_secrets=[A]", "image_pull_secrets"),
        ("shard.resources.cpu=2 cores", "shard.resources.cpu: "),
        ("shard.resources.memory=2", "without a unit"),
        ("launch.volumes=[{path: data, claim: x}]", "write an absolute path"),
        ("launch.volumes=[{path: /argosy/out, claim: x}]", "is Argosy's own"),
        ("launch.volumes=[{path: /data}]", "needs claim, secret, config_map or scratch, exactly one"),
        ("launch.env_from=[{secret: a, config_map: b}]", "needs secret or config_map, exactly one"),
        ("launch.secrets={RANK: {secret: a, key: b}}", "RANK is set by Argosy"),
        ("launch.tolerations=[{key: a, operator: Equal}]", "operator Equal needs a value"),
        ("launch.volumes=[{path: /data, host_path: /}]", "host_path"),
        ("launch.pod_patch={hostPID: true}", "pod_patch.hostPID may not be patched: the pods stay in their own"),
        ("proxy={no_proxy: [a]}", "names no proxy; set http or https"),
        ("proxy.http=http://user:secret@proxy:3128", "holds credentials, which would be seen in the Workflow"),
        ("proxy.http=proxy:3128", "write http://host:port"),
        ("ca_bundle={key: ca.crt}", "ca_bundle.config_map"),
        ("launch.rdma={count: 2}", "launch.rdma.resource"),
        ("storage_options={credentials_secret: a, service_account: b}", "keep one of them"),
        ("storage_options.credentials_secret=s3", "has no effect without an s3:// storage"),
    ],
)
def test_a_fault_is_told(override: str, expected: str) -> None:
    with pytest.raises(BadInput) as caught:
        load_config(recipe="tiny", overrides=[override])

    assert any(expected in str(problem) for problem in caught.value.problems), caught.value.problems


def test_every_cluster_field_is_listed_as_without_meaning_on_one_machine() -> None:
    listed = without_meaning(
        compiled("namespace=ml", "image_pull_secrets=[a]", "placement={node_selector: {a: b}, tolerations: [{key: a}]}")
    )

    assert {
        "metadata.namespace", "spec.serviceAccountName", "spec.imagePullSecrets", "spec.securityContext",
        "spec.volumes", "spec.podSpecPatch", "spec.nodeSelector", "spec.tolerations",
        "spec.templates[].serviceAccountName",
        "spec.templates[].container.resources",
        "spec.templates[].container.volumeMounts",
    } <= listed.keys()  # fmt: skip
