"""Why a stage's pod does not start; messages as Kubernetes and Argo wrote them on a real cluster."""

import pytest

from components.diagnosis.pending import explain_pending


@pytest.mark.parametrize(
    ("message", "reason", "who"),
    [
        ('ErrImagePull: failed to pull and unpack image "localhost/x@sha256:aa": failed', "ImageNotPulled", "you"),
        ('ImagePullBackOff: Back-off pulling image "x"', "ImageNotPulled", "you"),
        ('CreateContainerConfigError: secret "wrong" not found', "SecretMissing", "you"),
        ("Unschedulable: 0/2 nodes are available: 2 Insufficient memory.", "MemoryShortage", "wait"),
        ("Unschedulable: 0/2 nodes are available: 2 node(s) failed frobnication.", "Unknown", "admin"),
        ('pods "x" is forbidden: exceeded quota: team, requested: pods=1', "NamespaceQuota", "wait"),
        (
            'pods "x" is forbidden: exceeded quota: team, requested: pods=1,requests.cpu=2, '
            "used: pods=9,requests.cpu=1, limited: pods=10,requests.cpu=2", "NamespaceQuota", "wait",
        ),
        (
            'pods "x" is forbidden: exceeded quota: team, requested: requests.cpu=3010m, used: requests.cpu=0, '
            "limited: requests.cpu=2", "NamespaceQuota", "you",
        ),
        (
            'pods "x" is forbidden: exceeded quota: argosy-other-priorities, requested: pods=1, used: pods=0, '
            "limited: pods=0", "NamespaceQuota", "you",
        ),
        ('pods "x" is forbidden: violates PodSecurity "restricted:latest": hostNetwork', "PodSecurity", "admin"),
        ("PodInitializing", "Pending", "wait"),
        ("", "Pending", "wait"),
    ],
)  # fmt: skip
def test_what_the_cluster_says_about_a_pod_that_waits_has_a_cause(message: str, reason: str, who: str) -> None:
    found = explain_pending(message, "preflight").diagnosis()

    assert (found.reason, found.actor.who) == (reason, who)
    assert found.cause.startswith("preflight ")
