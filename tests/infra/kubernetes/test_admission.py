"""The policy that keeps templates as they are: what it says; tests/cluster/test_templates_only.py tries the ways in."""

from pathlib import Path

import yaml

from infra.kubernetes.admission import NAMESPACE_LABEL, admission_manifests, admission_yaml
from pipelines.renders import OPEN_PARAMETERS

FILE = Path(__file__).parents[3] / "infra" / "kubernetes" / "admission.yaml"


def test_the_file_is_what_the_module_writes() -> None:
    assert FILE.read_text(encoding="ascii") == admission_yaml()


def test_argo_controller_and_server_are_exempt_and_nobody_else() -> None:
    conditions = admission_manifests()[0]["spec"]["matchConditions"]

    assert [item["expression"] for item in conditions] == [
        "!(request.userInfo.username in ['system:serviceaccount:argo:argo', 'system:serviceaccount:argo:argo-server'])"
    ]


def test_it_allows_the_parameters_that_a_render_leaves_open() -> None:
    text = admission_yaml()

    assert f"p.name in {list(OPEN_PARAMETERS)}" in text.replace('"', "'").replace("''", "'")
    assert "p.name in ['run', 'commit', 'size']" in admission_yaml(["--parameter", "size"]).replace("''", "'")


def test_it_holds_where_a_namespace_says_so_and_nowhere_else() -> None:
    text = admission_yaml(["--name", "mine", "--label", "team.example/strict"])
    policy, binding = yaml.safe_load_all(text)

    assert text.startswith("# Namespaces labelled team.example/strict=true run")
    assert binding["spec"]["matchResources"] == {"namespaceSelector": {"matchLabels": {"team.example/strict": "true"}}}
    assert binding["spec"]["policyName"] == policy["metadata"]["name"] == "mine"
    assert admission_manifests()[1]["spec"]["matchResources"]["namespaceSelector"]["matchLabels"] == {
        NAMESPACE_LABEL: "true"
    }


def test_an_api_server_that_cannot_ask_it_refuses() -> None:
    assert admission_manifests()[0]["spec"]["failurePolicy"] == "Fail"
