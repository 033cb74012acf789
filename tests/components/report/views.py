"""Runs as they look when they are over: one with a restart that succeeded, one that failed, one that barely began."""

import math
from datetime import UTC, datetime, timedelta
from typing import Any

from components.contracts.checks import CheckReport, CheckResult, CheckStatus
from components.contracts.clock import utc_text
from components.contracts.gang import (
    AttemptView,
    Failure,
    FailureKind,
    GangState,
    GenerationView,
    LaunchState,
    StepView,
)
from components.contracts.lifecycle import RunState
from components.contracts.retention import Decision, RetentionPlan
from components.contracts.run_view import CheckpointRow, RunView, StageState, StageView

BEGIN = datetime(2026, 11, 29, 18, 50, 0, tzinfo=UTC)
NOW = BEGIN + timedelta(seconds=50)
RUN = "gpt-tiny-001-x7k2p"


def at(seconds: float) -> str:
    return utc_text(BEGIN + timedelta(seconds=seconds))


def a_stage(task: str, start: float, end: float | None, **changed: Any) -> StageView:
    fields: dict[str, Any] = {"state": StageState.SUCCEEDED, "attempts": 1, "node": "vm", "exit_code": 0} | changed
    return StageView(task=task, started_at=at(start), ended_at=None if end is None else at(end), **fields)


def a_step(step: int, seconds: float, **changed: Any) -> StepView:
    loss = 5.545 * math.exp(-step / 40) + 2.2 + 0.06 * math.sin(step * 1.7)
    fields: dict[str, Any] = {
        "loss": loss, "tokens": 8192, "step_seconds": 0.21 + 0.02 * math.sin(step), "data_seconds": 0.004,
        "compute_seconds": 0.15, "comm_seconds": 0.05,
    } | changed  # fmt: skip
    return StepView(step=step, at=at(seconds), **fields)


def a_checkpoint(step: int, **changed: Any) -> CheckpointRow:
    fields: dict[str, Any] = {
        "term": 1, "run": RUN, "data_version": "d-f8cdabcea1655e28", "status": "verified", "level": "tensors",
        "metrics": {"loss": 2.9}, "size_bytes": 10_485_760, "committed_at": at(12 + step / 4),
    } | changed  # fmt: skip
    name = f"step-{step}-term-{fields['term']}"
    return CheckpointRow(checkpoint=name, step=step, uri=f"file:///storage/{name}", **fields)


def a_check(name: str, **changed: Any) -> CheckResult:
    fields: dict[str, Any] = {
        "status": CheckStatus.OK, "hard": True, "scope": "node", "subject": "/storage", "measured": "41.2 GiB free",
        "expected": "at least 1.2 GiB", "origin": "3 checkpoints kept and one being written",
    } | changed  # fmt: skip
    return CheckResult(name=name, **fields)


_PREFLIGHT = (
    a_check("storage_space"),
    a_check("storage_publish", measured="as promised", expected="one winner", origin="the ledger rests on it"),
    a_check(
        "accelerators", hard=False, status=CheckStatus.WARN, subject="", measured="no nvidia-smi: a CPU run",
        expected="a GPU a rank", origin="nproc_per_node", remedy="set nothing for a CPU run",
    ),
)  # fmt: skip
_CORES = a_check("cores", subject="", measured="2", expected="2 ranks", origin="launch")
CHECKS = (CheckReport(subject="preflight", results=_PREFLIGHT), CheckReport(subject="vm", results=(_CORES,)))

DEATH = Failure(
    kind=FailureKind.RANK_SIGNAL, node_rank=1, rank=1, signal="SIGKILL",
    message="rank 1 on node 1 was killed by SIGKILL",
    last_lines=("step 27 loss 5.04", "step 28 <loss> & more \x1b[31mred\x1b[0m", "</pre><script>alert(1)</script>"),
    at=at(19.3),
)  # fmt: skip

_MERGED = {"data_version": "d-f8cdabcea1655e28", "num_sequences": "123166", "num_tokens": "31526986"}


def _stages(launch_end: float, **launch: Any) -> tuple[StageView, ...]:
    return (
        a_stage("shard-plan", 0.2, 0.6, outputs={"plan_id": "p-1", "num_shards": "4"}),
        *(a_stage(f"shard-task-{index}", 0.8 + index * 0.1, 1.4 + index * 0.1) for index in range(4)),
        a_stage("shard-merge", 1.9, 2.1, outputs=_MERGED),
        a_stage("preflight", 0.2, 1.1, outputs={"verdict": "ok"}),
        a_stage("launch", 2.3, launch_end, **launch),
    )


def succeeded_view(**changed: Any) -> RunView:
    """60 steps, rank 1 killed after step 28, resumed from step 20."""
    first = AttemptView(
        term=1, attempt=0, started_at=at(4), first_step_at=at(12), ended_at=at(19.4), first_step=1, last_step=28,
        outcome="failed", failure=DEATH,
    )  # fmt: skip
    second = AttemptView(
        term=2, attempt=1, resumed_from="step-20-term-1", resumed_step=20, started_at=at(20), first_step_at=at(27.5),
        ended_at=at(37), first_step=21, last_step=60, outcome="succeeded", charged=True,
    )  # fmt: skip
    steps = [a_step(step, 12 + step / 4) for step in range(1, 29)]
    steps[0] = a_step(1, 12, step_seconds=2.9)
    steps += [a_step(step, 22.5 + step / 4) for step in range(21, 61)]
    gang = GangState(
        run=RUN, generation=0, state=RunState.SUCCEEDED, world_size=2, num_joined=2, updated_at=at(37),
        created_at=at(3), attempts=(first, second), steps=tuple(steps), last_step=steps[-1], total_steps=60,
        restarts_used=1, run_seconds_used=24.4, exit_code=0,
    )  # fmt: skip
    launch = LaunchState(
        run=RUN, backend="process", state=RunState.SUCCEEDED, updated_at=at(38), exit_code=0,
        generations=(GenerationView(generation=0, created_at=at(3), begin_reason="FirstStart", ended_at=at(38)),),
    )  # fmt: skip
    fields: dict[str, Any] = {
        "state": RunState.SUCCEEDED, "exit_code": 0, "stages": (
            *_stages(38), a_stage("verify", 38.2, 38.9), a_stage("retain", 39, 39.4),
            a_stage("finish", 39.6, None, state=StageState.RUNNING, exit_code=None),
        ),
        "checks": CHECKS, "launch": launch, "gangs": (gang,), "step": 60, "total_steps": 60, "loss": 2.31,
        "data_version": "d-f8cdabcea1655e28", "checkpoint": "step-60-term-2",
        "checkpoints": (
            a_checkpoint(60, term=2, metrics={"loss": 2.31}),
            a_checkpoint(50, term=2), a_checkpoint(40, term=2),
            a_checkpoint(30, term=2, status="quarantined", level=None, reason="model.safetensors: 3 NaN in lm_head"),
            a_checkpoint(20, status="retired", reason="3 newer verified ones are kept"),
            a_checkpoint(10, status="retired", reason="3 newer verified ones are kept"),
        ),
        "retention": RetentionPlan(decisions=tuple(
            Decision(checkpoint=f"step-{step}-term-2", step=step, action="keep", reason="one of the 3 newest verified")
            for step in (60, 50, 40)
        )),
    } | changed  # fmt: skip
    return RunView(
        run=RUN, experiment="gpt-tiny-001", model_version="v1", target="local", storage="file:///storage",
        created_at=at(0), started_at=at(0.2), description={"experiment": "gpt-tiny-001", "launch": {"max_restarts": 3}},
        **fields,
    )  # fmt: skip


def failed_view() -> RunView:
    """The same run with no restart left."""
    good = succeeded_view()
    gang = good.gangs[0]
    failed = gang.model_copy(update={
        "state": RunState.FAILED, "attempts": gang.attempts[:1], "steps": gang.steps[:28], "restarts_used": 0,
        "last_step": gang.steps[27], "exit_code": 90,
    })  # fmt: skip
    stage = {
        "state": StageState.FAILED, "exit_code": 90, "reason": "WorkerFailed",
        "message": "WorkerFailed: rank 1 on node 1 was killed by SIGKILL", "fix": "look at its last lines",
    }  # fmt: skip
    return good.model_copy(update={
        "state": RunState.FAILED, "exit_code": 90, "failed_task": "launch", "gangs": (failed,),
        "stages": (*_stages(20, **stage), StageView(task="verify", state=StageState.SKIPPED),
                   StageView(task="retain", state=StageState.SKIPPED), a_stage("finish", 20.2, 20.4)),
        "checkpoint": "step-20-term-1", "checkpoints": (a_checkpoint(20), a_checkpoint(10)), "retention": None,
    })  # fmt: skip


def bare_view() -> RunView:
    """Refused by the first stage: no gang, no data, no checkpoint, no description."""
    refused = a_stage(
        "shard-plan", 0.2, 0.5, state=StageState.FAILED, exit_code=78, reason="CorpusRefused",
        message="CorpusRefused: corpus data cannot be packed", fix="",
    )  # fmt: skip
    return RunView(run=RUN, state=RunState.FAILED, exit_code=78, failed_task="shard-plan", stages=(refused,))
