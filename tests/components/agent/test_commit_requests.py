"""What committing a step costs an agent, counted at the wire of a real S3 server."""

import io
from dataclasses import replace
from pathlib import Path

import pytest

from components.agent.events import CommitStep
from components.agent.logs import LogStreams
from components.agent.publishing import catch_up, commit_step, publish_step
from components.agent.run_context import RunContext
from components.contracts.retention import RetentionPolicy
from components.retain.apply import apply_retention
from components.runtime.log import Log
from components.storage.s3 import S3Store
from components.verify.run import verify_entry
from tests.components.agent.test_coordinator import a_spec
from tests.components.ledger.building import NOW, a_begun_run, a_ledger, a_stage
from tests.fakes.s3_proxy import S3Proxy

SILENT = Log({}, io.StringIO())


@pytest.fixture
def context(proxied_store: S3Store, tmp_path: Path) -> RunContext:
    """Agent 0 of a gang of two nodes whose term 1 has begun."""
    spec = a_spec(storage=proxied_store.uri, num_nodes=2)
    context = RunContext(
        spec=spec, node_rank=0, workdir=tmp_path, store=proxied_store, log=SILENT,
        streams=LogStreams(tmp_path / "spool", proxied_store, lambda stream, number: "logs"), node="here",
    )  # fmt: skip
    assert a_begun_run(context.ledger, spec.run) == 1
    return context


def saved(context: RunContext, stage: Path, step: int) -> None:
    assert publish_step(context, 1, step, stage) is None
    commit_step(context, CommitStep(term=1, step=step, parent=None, metrics={}))


def kept_up(context: RunContext) -> None:
    """What verify and retain do after each commit, in processes of their own."""
    ledger = a_ledger(context.store, experiment=context.spec.experiment, model_version=context.spec.model_version)
    for entry in ledger.state().newest_first("committed"):
        verify_entry(ledger, entry, "tensors", SILENT)
    apply_retention(ledger, RetentionPolicy(keep_last=2), run=context.spec.run, log=SILENT, now=NOW)


def requests(proxy: S3Proxy) -> list[str]:
    return [f"{method} {path.rpartition('/')[2]}" for method, path in proxy.seen]


def test_a_step_costs_three_small_requests_beyond_its_data(
    context: RunContext, s3_proxy: S3Proxy, tmp_path: Path
) -> None:
    stage = a_stage(tmp_path / "stage")
    for step in (10, 20, 30):
        saved(context, stage, step)
        kept_up(context)
        catch_up(context)
    s3_proxy.behave()

    saved(context, stage, 40)

    # claim, begin, three of commit and verified, retire and deleted: the next position is 11.
    seen = requests(s3_proxy)
    assert sorted(seen[:2]) == ["PUT model.safetensors", "PUT state.json"]
    assert seen[2:] == ["PUT 000000.json", "PUT MANIFEST.json", "PUT 000000000011.json"]


def test_what_others_wrote_meanwhile_costs_a_request_each(
    context: RunContext, s3_proxy: S3Proxy, tmp_path: Path
) -> None:
    stage = a_stage(tmp_path / "stage")
    saved(context, stage, 10)
    kept_up(context)
    s3_proxy.behave()

    saved(context, stage, 20)

    log = [request for request in requests(s3_proxy) if "0000000000" in request]
    assert log == [
        "PUT 000000000004.json", "GET 000000000004.json", "GET 000000000004.json", "GET 000000000005.json",
        "PUT 000000000005.json",
    ]  # fmt: skip


def test_the_receipt_of_another_node_costs_one_more(context: RunContext, s3_proxy: S3Proxy, tmp_path: Path) -> None:
    assert context.spec.checkpoint is not None
    rule = context.spec.checkpoint.model_copy(update={"writers": "all"})
    spec = context.spec.model_copy(update={"checkpoint": rule})
    first, second = replace(context, spec=spec), replace(context, spec=spec, node_rank=1)
    saved(first, a_stage(tmp_path / "before"), 10)
    assert publish_step(second, 1, 20, a_stage(tmp_path / "second", {"rank-1.json": b"{}"})) is None
    s3_proxy.behave()

    saved(first, a_stage(tmp_path / "first", {"rank-0.json": b"{}"}), 20)

    assert requests(s3_proxy) == [
        "PUT rank-0.json", "PUT 000000.json", "GET 000001.json", "PUT MANIFEST.json", "PUT 000000000004.json",
    ]  # fmt: skip
    assert first.ledger.state().checkpoints["step-20-term-1"].num_files == 2
