"""Why a stage's pod does not start; messages as Kubernetes and Argo wrote them on a real cluster."""

import pytest

from components.diagnosis.pending import explain_pending


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ('ErrImagePull: failed to pull and unpack image "localhost/x@sha256:aa": failed', "ImageNotPulled"),
        ('ImagePullBackOff: Back-off pulling image "x"', "ImageNotPulled"),
        ('CreateContainerConfigError: secret "wrong" not found', "PodIncomplete"),
        ("Unschedulable: 0/2 nodes are available: 2 Insufficient memory.", "Unschedulable"),
        ('pods "x" is forbidden: exceeded quota: team, requested: pods=1', "QuotaExceeded"),
        ('pods "x" is forbidden: violates PodSecurity "restricted:latest"', "NotAdmitted"),
        ("PodInitializing", "Pending"),
        ("", "Pending"),
    ],
)  # fmt: skip
def test_what_the_cluster_says_about_a_pod_that_waits_has_a_cause(message: str, reason: str) -> None:
    assert explain_pending(message)[0] == reason
