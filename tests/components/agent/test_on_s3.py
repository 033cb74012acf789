"""A gang whose storage is a real S3 server: commits there, and resumes from there."""

import sys
from collections.abc import Callable

import pytest

from components.storage.s3 import S3Store
from tests.components.agent.gang import Gang, checkpoint, worker
from tests.fakes.s3_proxy import Fault, S3Proxy
from tests.fakes.s3_server import S3Server

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a gang's processes are kept together by Linux")

NewGang = Callable[..., Gang]


def test_a_gang_commits_and_restarts_from_checkpoints_on_s3(
    new_gang: NewGang, s3_server: S3Server, s3_store: S3Store
) -> None:
    gang = new_gang(
        worker(10, fail="1:8"), checkpoint=checkpoint(5), store=s3_store, environ=s3_server.environment
    ).start()

    assert gang.wait() == [0, 0], gang.said()
    first, second = gang.final.attempts
    assert (first.outcome, second.resumed_from, second.outcome) == ("failed", "step-5-term-1", "succeeded")
    assert gang.messages(1, 1, attempt=1)[0] == "rank 1 starts at step 5"
    assert gang.history.checkpoints["step-10-term-2"].status == "verified"
    assert not list(gang.folder.glob("g0/node-*/resume"))


def test_a_gang_goes_on_through_a_store_that_fails_now_and_then(
    new_gang: NewGang, s3_server: S3Server, s3_proxy: S3Proxy, s3_store: S3Store
) -> None:
    number = 0

    def now_and_then(method: str, path: str) -> Fault | None:
        nonlocal number
        number += 1
        faults = (Fault(status=503, code="SlowDown"), Fault(cut=True, after=True), Fault(status=500, after=True))
        return faults[number % 3] if number % 5 == 0 else None

    s3_proxy.always = now_and_then
    environ = {**s3_server.environment, "AWS_ENDPOINT_URL_S3": s3_proxy.endpoint}
    gang = new_gang(worker(10, fail="0:8"), checkpoint=checkpoint(5), store=s3_store, environ=environ).start()

    assert gang.wait(60) == [0, 0], gang.said()
    state = gang.history
    assert [entry.checkpoint for entry in state.newest_first("verified")] == ["step-10-term-2", "step-5-term-1"]
    assert len(state.begins) == 2


def test_a_checkpoint_damaged_in_the_store_is_passed_over_before_it_is_fetched(
    new_gang: NewGang, s3_server: S3Server, s3_store: S3Store
) -> None:
    gang = new_gang(worker(10), checkpoint=checkpoint(5), store=s3_store, environ=s3_server.environment).start()
    assert gang.wait() == [0, 0], gang.said()
    s3_store.replace(f"{gang.history.checkpoints['step-10-term-1'].folder}/state.json", b'{"step":99}')
    later = new_gang(
        worker(12), checkpoint=checkpoint(5), store=s3_store, environ=s3_server.environment, generation=1
    ).start()

    assert later.wait() == [0, 0], later.said()
    assert later.messages(0, 0)[0] == "rank 0 starts at step 5"
    assert later.history.checkpoints["step-10-term-1"].status == "quarantined"
