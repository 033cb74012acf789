"""What is handed to Argo: the compiled manifest or a template's name, as a Workflow of one run (pure)."""

import copy
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from components.contracts.cluster_names import (
    DESCRIPTION_ANNOTATION,
    EXPERIMENT_LABEL,
    INSTANCE_LABEL,
    MANAGED_BY,
    MANAGED_BY_LABEL,
    MODEL_VERSION_LABEL,
    RUN_LABEL,
    TITLE_ANNOTATION,
)
from components.errors import BadInput, Problem
from components.storage.location import S3Location, parse_location
from infra.argo.argo import Workflow

_DIGEST = re.compile(r"@sha256:[0-9a-f]{64}$")


def workflow_of(
    manifest: Mapping[str, Any], *, name: str, run: str, parameters: Mapping[str, str], instance_id: str = ""
) -> Workflow:
    """The compiled `manifest` as the Workflow `name` of `run`; `parameters` replace its own."""
    workflow = copy.deepcopy(dict(manifest))
    metadata = workflow["metadata"]
    metadata.pop("generateName", None)
    metadata.pop("namespace", None)  # where it is submitted says that, and a second word could only contradict it
    metadata["name"] = name
    metadata["labels"] = {**(metadata.get("labels") or {}), **_labels(run, instance_id)}
    pods = workflow["spec"].setdefault("podMetadata", {})
    pods["labels"] = {**(pods.get("labels") or {}), RUN_LABEL: run}
    for parameter in (workflow["spec"].get("arguments") or {}).get("parameters") or ():
        if parameter["name"] in parameters:
            parameter["value"] = parameters[parameter["name"]]
    return workflow


def workflow_from_template(
    template: Workflow, *, name: str, run: str, parameters: Mapping[str, str], instance_id: str = ""
) -> Workflow:
    """A Workflow that only names `template`: all that a cluster in Strict mode lets people submit."""
    source = template["metadata"]
    labels = {
        key: value for key, value in (source.get("labels") or {}).items()
        if key in (EXPERIMENT_LABEL, MODEL_VERSION_LABEL)
    }  # fmt: skip
    values = [{"name": key, "value": value} for key, value in sorted(parameters.items())]
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"name": name, "labels": {**labels, **_labels(run, instance_id)}},
        "spec": {
            "workflowTemplateRef": {"name": source["name"]},
            "arguments": {"parameters": values},
        },
    }


def workflow_again(earlier: Workflow, *, name: str) -> Workflow:
    """The same run once more, as another Workflow: `earlier` without what its controller made of it."""
    metadata, spec = earlier["metadata"], copy.deepcopy(earlier["spec"])
    for key in ("shutdown", "suspend"):
        spec.pop(key, None)
    _name_run(spec, (metadata.get("labels") or {}).get(RUN_LABEL) or metadata["name"])
    # What Argo and we wrote about the earlier Workflow itself says nothing about this one.
    labels = {
        key: value for key, value in (metadata.get("labels") or {}).items()
        if not key.startswith("workflows.argoproj.io/") or key == INSTANCE_LABEL
    }  # fmt: skip
    annotations = {
        key: value for key, value in (metadata.get("annotations") or {}).items()
        if key in (TITLE_ANNOTATION, DESCRIPTION_ANNOTATION)
    }  # fmt: skip
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"name": name, "labels": labels, **({"annotations": annotations} if annotations else {})},
        "spec": spec,
    }


def _name_run(spec: dict[str, Any], run: str) -> None:
    """What a schedule, an event or the UI started was named by its Workflow, and its successor has another name."""
    parameters = spec.setdefault("arguments", {}).setdefault("parameters", [])
    said = next((item for item in parameters if item.get("name") == "run"), None)
    if said is None:
        parameters.append({"name": "run", "value": run})
    elif not said.get("value"):
        said["value"] = run


def runs_selector(run: str = "") -> str:
    """Labels that find a run's Workflows, or those of every run of ours."""
    return f"{RUN_LABEL}={run}" if run else f"{MANAGED_BY_LABEL}={MANAGED_BY}"


def require_fit_for_cluster(
    *,
    storage: str,
    image: str,
    platform_image: str,
    tags_allowed: bool = False,
    inputs: Mapping[str, str] | None = None,
    more: Iterable[Problem] = (),
) -> None:
    """Refuse what works on one machine only. Raises BadInput with every fault.

    `inputs`: by the field's name, what the stages read: paths or uris. `more`: what the caller has found itself.
    """
    problems = [
        *_unfit(storage, image, platform_image, tags_allowed=tags_allowed),
        *(
            Problem(name, f"{value} is relative to a folder of this machine, and no pod has it", _UPLOAD)
            for name, value in (inputs or {}).items() if _is_relative(value)
        ),
        *more,
    ]  # fmt: skip
    if problems:
        raise BadInput("NotForACluster", "this description cannot run on a cluster as it is", problems=problems)


def _unfit(storage: str, image: str, platform_image: str, *, tags_allowed: bool) -> Iterator[Problem]:
    if not isinstance(parse_location(storage), S3Location):
        yield Problem("storage", f"{storage} is a folder of this machine", "use s3://bucket/prefix")
    for name, value in () if tags_allowed else (("platform_image", platform_image), ("image", image)):
        if value and not _DIGEST.search(value) and not (name == "image" and value == platform_image):
            yield Problem(name, f"{value} has no digest, so nodes could run different code", "write NAME@sha256:…")


_UPLOAD = "upload it, and name it as s3://bucket/prefix"


def _is_relative(value: str) -> bool:
    """Whether it is found from the folder of the description; an absolute path may be one of the platform image."""
    return not value.startswith("/") and "://" not in value and not value.startswith("python:")


def _labels(run: str, instance_id: str) -> dict[str, str]:
    labels = {MANAGED_BY_LABEL: MANAGED_BY, RUN_LABEL: run}
    return {**labels, INSTANCE_LABEL: instance_id} if instance_id else labels
