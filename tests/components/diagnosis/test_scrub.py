"""What may be kept as evidence: named fields, and texts in which no secret stands."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.diagnosis.scrub import MASK, kept, kept_view, masking, secret_values
from tests.components.diagnosis.made import a_pod, launching
from tests.runs import a_node, a_record, a_view, an_engine

CANARY = "canary-7c21e0"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (f"cannot log in with {CANARY} today", f"cannot log in with {MASK} today"),
        ("Authorization: Bearer abc123def456ghi", f"Authorization: {MASK}"),
        ("key AKIAIOSFODNN7EXAMPLE is wrong", f"key {MASK} is wrong"),
        ("WANDB_API_KEY=0123456789abcdef", f"WANDB_API_KEY={MASK}"),
        ('"aws_secret_access_key": "wJalrXUtnFEMI/K7MDENG"', f'"aws_secret_access_key": "{MASK}"'),
        ("s3://ann:hunter22@store/bucket", f"s3://{MASK}@store/bucket"),
        ("token hf_abcdefghijklmnop is refused", f"token {MASK} is refused"),
        ("jwt eyJhbGciOiJSUzI1.eyJpc3MiOiJrdWJl.c2lnbmF0dXJl end", f"jwt {MASK} end"),
        ("--password hunter22 --password=hunter22", f"--password hunter22 --password={MASK}"),
        ("0/2 nodes are available: 2 Insufficient nvidia.com/gpu.", "0/2 nodes are available: 2 Insufficient "
         "nvidia.com/gpu."),
        ("PreflightFailed: NoCredentials: cannot write", "PreflightFailed: NoCredentials: cannot write"),
        ("s3.Credentials: wJalrXUtnFEMI", f"s3.Credentials: {MASK}"),
        ('secret "s3-credentials" not found', 'secret "s3-credentials" not found'),
    ],
)  # fmt: skip
def test_texts_keep_their_sense_and_lose_their_secrets(said: str, shown: str) -> None:
    assert masking([CANARY])(said) == shown


def test_commands_arguments_and_variables_of_a_pod_do_not_pass() -> None:
    container = {"name": "program", "image": "r/x:1", "command": [CANARY], "args": [CANARY],
                 "env": [{"name": "A", "value": CANARY}],
                 "lifecycle": {"preStop": {"exec": {"command": [CANARY]}}}}  # fmt: skip
    pod = a_pod(spec={"containers": [container]}, metadata={"annotations": {"note": CANARY, "managed": CANARY}})
    pod["status"]["message"] = f"it said {CANARY}"

    shown = json.dumps(kept("pods", pod, masking(secret_values(pod))))

    assert CANARY not in shown
    assert f"it said {MASK}" in shown
    assert "r/x:1" in shown


def test_parameters_and_templates_of_a_workflow_do_not_pass() -> None:
    workflow = {
        "metadata": {"name": "w"}, "status": {"phase": "Running", "storedWorkflowTemplateSpec": {"x": CANARY}},
        "spec": {"arguments": {"parameters": [{"name": "x", "value": CANARY}]}, "entrypoint": "train",
                 "templates": [{"container": {"args": [CANARY]}}]},
    }  # fmt: skip

    assert kept("workflows", workflow, masking([])) == {
        "metadata": {"name": "w"}, "spec": {"entrypoint": "train"}, "status": {"phase": "Running"},
    }  # fmt: skip


def test_a_views_description_keeps_its_shape_and_loses_its_variables() -> None:
    record = a_record()
    launch = {**record.description["launch"], "env": {"TOKEN": CANARY}, "command": ["train", CANARY]}
    record = record.model_copy(update={"description": {**record.description, "launch": launch}})
    node = a_node("launch", "Failed", exit_code=1, message=f"it said {CANARY}")
    view = a_view(engine=an_engine(node, phase="Failed"), record=record)

    shown = kept_view(view, masking(secret_values(view.description)))

    assert CANARY not in shown.to_bytes().decode()
    assert shown.description == {"launch": {"num_nodes": 2, "max_restarts": 3, "limits": launch["limits"]}}


def test_names_are_never_taken_for_secrets() -> None:
    view = launching()

    assert kept_view(view, masking(["tiny-b2c4d"], known=["tiny-b2c4d"])).run == "tiny-b2c4d"


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
        max_leaves=12,
    ),
    st.sampled_from(["pods", "workflows", "jobs", "jobsets", "queued", "queues", "events", "nodes"]),
)
def test_objects_of_any_shape_are_pruned_without_a_fault(value: Any, kind: str) -> None:
    item = value if isinstance(value, dict) else {"metadata": value, "spec": value, "status": value}

    assert isinstance(kept(kind, item, masking([])), dict)
