"""Names that recur in a manifest: its parameters, its tasks, and the tags by which they refer to each other."""

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
