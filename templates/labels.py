"""Names that recur in manifests: label keys, workflow parameters, task names. Written once, imported by both halves."""

DOMAIN = "argosy.dev"

EXPERIMENT_LABEL = f"{DOMAIN}/experiment"
MODEL_VERSION_LABEL = f"{DOMAIN}/model-version"
STAGE_LABEL = f"{DOMAIN}/stage"

TITLE_ANNOTATION = "workflows.argoproj.io/title"
DESCRIPTION_ANNOTATION = "workflows.argoproj.io/description"
INSTANCE_LABEL = "workflows.argoproj.io/controller-instanceid"
MANAGED_BY_LABEL, MANAGED_BY = "app.kubernetes.io/managed-by", "argosy"
PENDING_LIMIT_ANNOTATION = f"{DOMAIN}/pending-limit-seconds"
"""On a stage's pod: the janitor ends it when it has been Pending for so long. Argo itself waits for ever."""

STORAGE = "storage"
IMAGE = "image"
PLATFORM_IMAGE = "platform_image"
RUN = "run"
CODE = "code"
WORKDIR = "workdir"

ENTRYPOINT = "train"
SHARD_PLAN = "shard-plan"
SHARD_TASK = "shard-task"
SHARD_MERGE = "shard-merge"
PREFLIGHT = "preflight"
LAUNCH = "launch"
VERIFY = "verify"
RETAIN = "retain"
FINISH = "finish"
AT_THE_END = "at-the-end"


def workflow_parameter(name: str) -> str:
    """The tag that Argo replaces by a workflow parameter."""
    return f"{{{{workflow.parameters.{name}}}}}"


def input_parameter(name: str) -> str:
    """The tag that Argo replaces by an input of the template."""
    return f"{{{{inputs.parameters.{name}}}}}"


def output_of(task: str, name: str) -> str:
    """The tag that Argo replaces by an output parameter of an earlier task."""
    return f"{{{{tasks.{task}.outputs.parameters.{name}}}}}"
