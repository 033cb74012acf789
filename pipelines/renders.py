"""What a cluster is given through Git: the compiled Workflow as a WorkflowTemplate, and what starts runs of it (pure).

A render is made to be committed: no name is generated, nothing is said about the moment or the machine, and image,
storage and command are literals, so that who may start a run may not choose what it runs.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from components.contracts.cluster_names import COMMIT_LABEL, CONTENT_LABEL, FINISH, RUN_LABEL
from components.errors import BadInput, Problem
from infra.argo.content import content_of
from infra.argo.submission import require_fit_for_cluster
from infra.kubernetes.webhook_access import webhook_access
from infra.lint.manifest import lint
from infra.local.substitution import substitute
from pipelines.config import TrainConfig
from pipelines.gitops_section import GitOpsSection
from pipelines.literal_secrets import literal_secrets
from pipelines.specs import paths_read
from pipelines.workflow import canonical, workflow_labels
from templates import labels

Object = dict[str, Any]

KINDS = ("template", "cron", "event", "all")
"""What can be rendered. `cron` and `event` bring the template along: without it they start nothing."""

COMMIT = "commit"
NO_COMMIT = "0" * 40
"""What a push that deletes a branch gives as its commit."""
OPEN_PARAMETERS = (labels.RUN, COMMIT)
"""All that whoever starts a run may say; the stages check both."""

SYNC_WAVE_ANNOTATION = "argocd.argoproj.io/sync-wave"

START_WITHIN_SECONDS = 600
"""How late a scheduled run may start when nobody was there at its time."""
MAX_RUN_SUFFIX = 11
"""What Argo (a time) and we (the beginning of a commit's SHA) add to the experiment's name for a run's."""
_LONGEST_POD_SUFFIX = len("-g99-n-0-") + len("-x7k2p")
_MAX_DNS_LABEL = 63


def rendered(
    manifest: Mapping[str, Any], config: TrainConfig, *, kind: str, tags_allowed: bool = False
) -> list[Object]:
    """The objects of `kind` for `manifest`, the compiled form of `config`. Raises BadInput with every fault."""
    _require_renderable(manifest, config, kind, tags_allowed=tags_allowed)
    gitops = config.gitops or GitOpsSection()
    objects = [_template(manifest, config)]
    if kind in ("cron", "all") and gitops.schedules:
        objects.append(_cron(config, gitops))
    if kind in ("event", "all"):
        objects.append(_event_binding(config, gitops))
        objects += webhook_access(config.experiment, namespace=config.namespace or "")
    return [canonical(labelled(_placed(item, config))) for item in objects]


def labelled(item: Object) -> Object:
    """`item` with its content as a label; a template's runs get it too."""
    content = content_of(item)
    changed = copy.deepcopy(item)
    changed["metadata"]["labels"][CONTENT_LABEL] = content
    if changed["kind"] == "WorkflowTemplate":
        changed["spec"]["workflowMetadata"]["labels"][CONTENT_LABEL] = content
    return changed


def template_problems(template: Mapping[str, Any]) -> list[Problem]:
    """What our lint says of a WorkflowTemplate that was rendered here, perhaps edited since."""
    spec = {key: value for key, value in (template.get("spec") or {}).items() if key != "workflowMetadata"}
    metadata = {"generateName": f"{(template.get('metadata') or {}).get('name', '')}-"}
    return lint({"apiVersion": template.get("apiVersion"), "kind": "Workflow", "metadata": metadata, "spec": spec})


def _require_renderable(manifest: Mapping[str, Any], config: TrainConfig, kind: str, *, tags_allowed: bool) -> None:
    values = _parameters(manifest)
    problems: list[Problem] = []
    try:
        require_fit_for_cluster(
            storage=values[labels.STORAGE], image=values[labels.IMAGE], platform_image=values[labels.PLATFORM_IMAGE],
            tags_allowed=tags_allowed, inputs=paths_read(config), more=literal_secrets(config),
        )  # fmt: skip
    except BadInput as error:
        problems += error.problems
    if config.code is not None:
        seen = "travels with a run from the machine that submits it, and a render has none"
        problems.append(Problem("code", seen, "build the code into the image, and leave it out"))
    gitops = config.gitops or GitOpsSection()
    if kind == "cron" and not gitops.schedules:
        problems.append(Problem("gitops.schedules", "is not set", "write for example ['30 3 * * 1-5']"))
    if kind in ("event", "all") and not config.namespace:
        problems.append(Problem("namespace", "is not set, and a RoleBinding must name one", "set namespace"))
    nodes = len(str(config.launch.num_nodes - 1))
    longest = _MAX_DNS_LABEL - _LONGEST_POD_SUFFIX - nodes - MAX_RUN_SUFFIX
    if kind != "template" and len(config.experiment) > longest:
        seen = f"has {len(config.experiment)} characters, too many for the pods of runs that Argo names"
        problems.append(Problem("experiment", seen, f"use at most {longest}, or render a template only"))
    if problems:
        raise BadInput("NotRendered", "this description cannot be rendered for a cluster", problems=problems)


def _template(manifest: Mapping[str, Any], config: TrainConfig) -> Object:
    values = _parameters(manifest)
    fixed = {f"workflow.parameters.{name}": value for name, value in values.items() if name not in OPEN_PARAMETERS}
    spec = substitute({key: value for key, value in manifest["spec"].items() if key != "arguments"}, fixed)
    spec["arguments"] = {
        "parameters": [
            {"name": labels.RUN, "value": "", "description": "Name of the run; empty: the Workflow's name"},
            {"name": COMMIT, "value": "", "description": "SHA of the Git commit the run is of; empty: of none"},
        ]
    }
    for item in spec["templates"]:
        # The exit handler reports on every run, also on one that was refused for its commit.
        if "container" in item and item["name"] != FINISH:
            item["container"]["args"] += ["--commit", labels.workflow_parameter(COMMIT)]
    template = _object("WorkflowTemplate", config, spec)
    template["metadata"]["annotations"] = dict(manifest["metadata"]["annotations"])
    problems = template_problems(template)
    if problems:
        raise BadInput("ManifestRefused", "the rendered template would not run as meant", problems=problems)
    spec["workflowMetadata"] = {
        "labels": workflow_labels(config),
        # Whatever who starts a run writes there, these two are what the run is.
        "labelsFrom": {
            COMMIT_LABEL: {"expression": "workflow.parameters.commit"},
            RUN_LABEL: {"expression": "workflow.parameters.run == '' ? workflow.name : workflow.parameters.run"},
        },
    }
    return template


def _cron(config: TrainConfig, gitops: GitOpsSection) -> Object:
    spec = {
        "schedules": list(gitops.schedules or ()),
        "timezone": gitops.timezone,
        "concurrencyPolicy": "Forbid",
        "startingDeadlineSeconds": START_WITHIN_SECONDS,
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 3,
        "workflowSpec": {"workflowTemplateRef": {"name": config.experiment}},
    }
    return _after_template(_object("CronWorkflow", config, spec))


def _event_binding(config: TrainConfig, gitops: GitOpsSection) -> Object:
    # A payload is whatever somebody sent: a field may be missing, or no text. Each condition guards the next.
    conditions = (
        f"discriminator == '{config.experiment}'",
        "type(payload) == 'map'",
        "type(payload.after) == 'string'",
        f"payload.ref == 'refs/heads/{gitops.branch}'",
        "payload.after matches '^[0-9a-f]{40}$'",
        f"payload.after != '{NO_COMMIT}'",
    )
    # One run a commit: when the same push is delivered again, its name is taken.
    name = f"'{config.experiment}-' + payload.after[0:{MAX_RUN_SUFFIX - 1}]"
    spec = {
        "event": {"selector": " && ".join(conditions)},
        "submit": {
            "workflowTemplateRef": {"name": config.experiment},
            "metadata": {"name": name, "labels": {COMMIT_LABEL: "payload.after"}},
            "arguments": {"parameters": [{"name": COMMIT, "valueFrom": {"event": "payload.after"}}]},
        },
    }
    return _after_template(_object("WorkflowEventBinding", config, spec))


def _object(kind: str, config: TrainConfig, spec: Object) -> Object:
    metadata = {"name": config.experiment}
    return {"apiVersion": "argoproj.io/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


def _after_template(item: Object) -> Object:
    """For Argo CD, which otherwise applies what is of one kind group by name."""
    return {**item, "metadata": {**item["metadata"], "annotations": {SYNC_WAVE_ANNOTATION: "1"}}}


def _placed(item: Object, config: TrainConfig) -> Object:
    place = {"namespace": config.namespace} if config.namespace else {}
    return {**item, "metadata": {**item["metadata"], **place, "labels": workflow_labels(config)}}


def _parameters(manifest: Mapping[str, Any]) -> dict[str, str]:
    listed: Sequence[Mapping[str, Any]] = manifest["spec"]["arguments"]["parameters"]
    return {str(item["name"]): str(item["value"]) for item in listed}
