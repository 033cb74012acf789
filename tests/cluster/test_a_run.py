"""A whole run, from a corpus in S3 to a report, with just the rights that are shipped."""

from collections.abc import Callable

from tests.cluster.harness import ClusterRun, expected_loss


def test_a_run_ends_verified_retained_and_reported(
    runs: Callable[..., ClusterRun], figure: Callable[[str, float], None]
) -> None:
    run = runs("plain").start()

    assert run.finish() == 0
    assert run.losses()[20] == expected_loss(20)
    assert run.report() is not None
    figure("nothing left of the gang after the end", run.wait_until_gone())
    statuses = {entry.step: entry.status for entry in run.ledger().checkpoints.values()}
    assert statuses[20] == "verified"
    assert len([status for status in statuses.values() if status != "retired"]) == 2  # keep_last: 2
