"""Why a stage's pod does not start, from what the cluster says about it."""

import re

_CAUSES = (
    (
        re.compile(r"ErrImagePull|ImagePullBackOff|InvalidImageName|ErrImageNeverPull|[Ff]ailed to pull", re.DOTALL),
        "ImageNotPulled", "its image cannot be pulled",
        "check image and platform_image, and that image_pull_secrets names a Secret that may pull them",
    ),
    (
        re.compile(r"CreateContainerConfigError|(?:secret|configmap) \S+ not found|references non-existent", re.DOTALL),
        "PodIncomplete", "something its pod refers to is missing", "create what is named in its namespace",
    ),
    (
        re.compile(r"exceeded quota|forbidden: .*quota", re.DOTALL),
        "QuotaExceeded", "the namespace's quota leaves no room", "wait for other pods to end, or have the quota raised",
    ),
    (
        re.compile(r"Unschedulable|nodes are available|SchedulingGated", re.DOTALL),
        "Unschedulable", "no node takes its pod",
        "free or add nodes, or lower resources, node_selector and tolerations in the description",
    ),
    (
        re.compile(r"violates PodSecurity|admission webhook .* denied|is forbidden", re.DOTALL),
        "NotAdmitted", "the cluster refuses its pod", "ask whoever runs the cluster which policy it is",
    ),
)  # fmt: skip


def explain_pending(message: str) -> tuple[str, str, str]:
    """Reason, cause and what to do about a pod that waits with this message."""
    for pattern, reason, cause, action in _CAUSES:
        if pattern.search(message):
            return reason, cause, action
    return "Pending", "its pod has not started", "wait, or see the pod's events"
