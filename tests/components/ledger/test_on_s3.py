"""The ledger on a real S3 server: racing processes, lost answers, many records, and a run from claim to deletion."""

import io
import subprocess
import sys
from pathlib import Path

from components.contracts.retention import RetentionPolicy
from components.ledger.records import Begin
from components.ledger.state import LedgerState
from components.retain.apply import apply_retention
from components.runtime.log import Log
from components.storage.s3 import S3Store
from tests.components.ledger.building import (
    DATA_VERSION,
    NOW,
    a_begun_run,
    a_checkpoint,
    a_ledger,
    a_stage,
    safetensors_bytes,
    selected,
)
from tests.components.ledger.test_requests import committed
from tests.fakes.s3_proxy import Fault, S3Proxy
from tests.fakes.s3_server import ROOT, S3Server

APPENDER = """
import sys
from components.ledger.ledger import Ledger
from components.ledger.records import Begin
from components.storage.base import open_store
ledger = Ledger(open_store(sys.argv[1]), "gpt", "v1")
print("ready", flush=True)
sys.stdin.readline()
for _ in range(15):
    ledger.append(lambda state: Begin(
        term=state.term + 1, run=sys.argv[2], generation=0, attempt=0, reason="race", charged=False))
"""


def next_term(state: LedgerState) -> Begin:
    return Begin(term=state.term + 1, run="gpt-aaaaa", generation=0, attempt=0, reason="start", charged=False)


def test_racing_processes_each_get_a_position_of_their_own(s3_server: S3Server, s3_store: S3Store) -> None:
    env = {**s3_server.environment, "PYTHONPATH": str(ROOT)}
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", APPENDER, s3_store.uri, run],
            env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for run in ("gpt-aaaaa", "gpt-bbbbb")
    ]  # fmt: skip
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        racer.communicate("go\n", timeout=60)

    begins = a_ledger(s3_store).state().begins
    assert [racer.returncode for racer in racers] == [0, 0]
    assert [begin.term for begin in begins] == list(range(1, 31))
    assert [sum(begin.run == run for begin in begins) for run in ("gpt-aaaaa", "gpt-bbbbb")] == [15, 15]


def test_whatever_answers_are_lost_each_record_is_written_once(proxied_store: S3Store, s3_proxy: S3Proxy) -> None:
    ledger = a_ledger(proxied_store)
    faults = [
        Fault(method="PUT", cut=True),
        Fault(method="PUT", cut=True, after=True),
        Fault(method="PUT", status=500, after=True),
        Fault(method="PUT", status=503, code="SlowDown", after=True),
        Fault(method="PUT", status=409, code="ConditionalRequestConflict"),
    ]
    for fault in faults:
        s3_proxy.misbehave(fault)
        record = ledger.append(next_term)
        assert record is not None

    assert [begin.term for begin in a_ledger(proxied_store).state().begins] == [1, 2, 3, 4, 5]


def test_many_records_are_folded_with_few_requests(
    s3_server: S3Server, s3_proxy: S3Proxy, proxied_store: S3Store
) -> None:
    ledger = a_ledger(S3Store(proxied_store._place, s3_server.client))
    for _ in range(600):
        ledger.append(next_term, from_known=True)

    assert a_ledger(proxied_store).state().seq == 600
    assert s3_proxy.count("GET") < 120  # 2 snapshots, 88 records after them, one listing, one look beyond the end


def test_a_commit_is_three_small_requests_at_the_wire_beyond_its_data(
    proxied_store: S3Store, s3_proxy: S3Proxy, tmp_path: Path
) -> None:
    files = {"model.safetensors": safetensors_bytes({"weight": [0.5] * 100_000}), "optimizer.pt": bytes(300_000)}
    ledger, stage = a_ledger(proxied_store), a_stage(tmp_path / "stage", files)
    term = a_begun_run(ledger)
    committed(ledger, stage, 10, term)
    s3_proxy.behave()

    committed(ledger, stage, 20, term)

    bucket = f"/{proxied_store._place.bucket}/checkpoints/gpt/v1"
    folder = f"{bucket}/{DATA_VERSION}/step-000000000020/term-000001"
    assert sorted(s3_proxy.seen[:2]) == [
        ("PUT", f"{folder}/model.safetensors"), ("PUT", f"{folder}/optimizer.pt"),
    ]  # fmt: skip
    assert s3_proxy.seen[2:] == [
        ("PUT", f"{folder}/receipts/000000.json"),
        ("PUT", f"{folder}/MANIFEST.json"),
        ("PUT", f"{bucket}/log/000000000004.json"),
    ]


def test_a_run_from_its_claim_to_deletion(s3_store: S3Store, tmp_path: Path) -> None:
    ledger, stage = a_ledger(s3_store), a_stage(tmp_path / "stage")
    term = a_begun_run(ledger)
    for step in (10, 20, 30, 40):
        a_checkpoint(ledger, stage, step=step, term=term, verified="tensors")
    damaged = ledger.state().checkpoints["step-40-term-1"].folder
    s3_store.replace(f"{damaged}/state.json", b'{"step": 2}')

    assert selected(ledger, "gpt-bbbbb").checkpoint == "step-30-term-1"
    plan = apply_retention(ledger, RetentionPolicy(keep_last=2), run="gpt-aaaaa", log=Log({}, io.StringIO()), now=NOW)

    assert plan.deleted == ("step-10-term-1",)
    assert ledger.state().checkpoints["step-40-term-1"].status == "quarantined"
    folders = {item.key.split("/")[4] for item in s3_store.list("checkpoints/gpt/v1") if "/log/" not in item.key}
    assert folders == {"step-000000000020", "step-000000000030", "step-000000000040"}
