"""Labels, annotations and names by which a run's objects in a cluster are known; written once, read by all parts."""

DOMAIN = "argosy.dev"
MANAGED_BY_LABEL, MANAGED_BY = "app.kubernetes.io/managed-by", "argosy"

EXPERIMENT_LABEL = f"{DOMAIN}/experiment"
MODEL_VERSION_LABEL = f"{DOMAIN}/model-version"
RUN_LABEL = f"{DOMAIN}/run"
COMMIT_LABEL = f"{DOMAIN}/commit"
"""On a Workflow: the Git commit it is a run of; empty, of none."""
CONTENT_LABEL = f"{DOMAIN}/content"
"""On what was rendered for a cluster, and on its runs: a digest of the rendered object."""
GANG_LABEL = f"{DOMAIN}/gang"
"""`<run>-g<generation>`; on every object of one generation."""
GENERATION_LABEL = f"{DOMAIN}/generation"

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"
"""Kueue's, on the gang's own object: its LocalQueue, and its WorkloadPriorityClass."""

STAGE_LABEL, FINISH = f"{DOMAIN}/stage", "finish"
"""On a stage's pod: which; the exit handler's value."""
WORKFLOW_LABEL = "workflows.argoproj.io/workflow"
"""Argo's, on every pod of a Workflow: its name."""
INSTANCE_LABEL = "workflows.argoproj.io/controller-instanceid"
"""Argo's: which of several controllers a Workflow is for."""
TITLE_ANNOTATION, DESCRIPTION_ANNOTATION = "workflows.argoproj.io/title", "workflows.argoproj.io/description"
"""Argo's: what its UI shows of a Workflow."""

STOP_ANNOTATION = f"{DOMAIN}/stop"
"""On a Workflow: who asked for its end, as a StopRequest."""
WORKFLOW_ANNOTATION = f"{DOMAIN}/workflow"
"""Name of the Workflow whose launch stage made the gang; a gang without it is nobody's but its maker's."""
WORKFLOW_UID_ANNOTATION = f"{DOMAIN}/workflow-uid"

FORCE_AFTER_ANNOTATION = f"{DOMAIN}/force-delete-after-seconds"
"""On a pod: the janitor may delete it without its node's word so many seconds after the node stopped answering."""
PENDING_LIMIT_ANNOTATION = f"{DOMAIN}/pending-limit-seconds"
"""On a stage's pod: the janitor stops its Workflow when it has been Pending for so long. Argo waits for ever."""
PENDING_LIMIT_SECONDS = 1800
"""What that says, and what the janitor goes by where it says nothing."""

COMPLETION_INDEX_ANNOTATION = "batch.kubernetes.io/job-completion-index"
COMPLETION_INDEX_VARIABLE = "JOB_COMPLETION_INDEX"
JANITOR_NAME = "argosy-janitor"
"""Of its Deployment, and of its account."""
COORDINATOR_PORT = 29400
"""Of agent 0, in its pod's own network; a tenant's NetworkPolicy opens it between gangs."""
