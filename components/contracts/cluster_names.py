"""Labels and annotations that tie a gang's Kubernetes objects together, and what the janitor reads from them."""

DOMAIN = "argosy.dev"
MANAGED_BY_LABEL, MANAGED_BY = "app.kubernetes.io/managed-by", "argosy"

EXPERIMENT_LABEL = f"{DOMAIN}/experiment"
RUN_LABEL = f"{DOMAIN}/run"
GANG_LABEL = f"{DOMAIN}/gang"
"""`<run>-g<generation>`; on every object of one generation."""
GENERATION_LABEL = f"{DOMAIN}/generation"

STOP_ANNOTATION = f"{DOMAIN}/stop"
"""On a Workflow: who asked for its end, as a StopRequest."""
WORKFLOW_ANNOTATION = f"{DOMAIN}/workflow"
"""Name of the Workflow whose launch stage made the gang; a gang without it is nobody's but its maker's."""
WORKFLOW_UID_ANNOTATION = f"{DOMAIN}/workflow-uid"

FORCE_AFTER_ANNOTATION = f"{DOMAIN}/force-delete-after-seconds"
"""On a pod: the janitor may delete it without its node's word so many seconds after the node stopped answering."""
PENDING_LIMIT_ANNOTATION = f"{DOMAIN}/pending-limit-seconds"
"""On a stage's pod: the janitor ends it when it has been Pending for so long."""

COMPLETION_INDEX_ANNOTATION = "batch.kubernetes.io/job-completion-index"
COMPLETION_INDEX_VARIABLE = "JOB_COMPLETION_INDEX"
JANITOR_NAME = "argosy-janitor"
"""Of its Deployment."""
