"""Outputs after a success, what was missing at a start deadline, and why a SIGTERM came."""

from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from components.contracts.checks import CheckReport, CheckResult, CheckStatus
from components.contracts.lifecycle import RunState
from components.errors import VerificationFailed
from components.launch.backend import AgentPhase, AgentStatus, last_line
from components.launch.conclusion import outputs_of
from components.launch.failure_policy import StopCause
from components.launch.history import History
from components.launch.intent import Intent
from components.launch.missing import missing_at_start
from components.ledger.state import BeginEntry, CheckpointEntry, LedgerState
from tests.components.launch.values import AT, a_state, an_attempt, exited, running

RUN = "exp-abcde"


def an_entry(step: int, term: int = 1, **changes: Any) -> CheckpointEntry:
    values: dict[str, Any] = {
        "checkpoint": f"step-{step}-term-{term}", "step": step, "term": term, "seq": step, "run": RUN,
        "data_version": "d", "folder": "f", "manifest_sha256": "0", "size_bytes": 1, "num_files": 1, "world_size": 2,
        "parent": None, "metrics": {}, "committed_at": AT, **changes,
    }  # fmt: skip
    return CheckpointEntry(**values)


def a_ledger(*entries: CheckpointEntry) -> LedgerState:
    return LedgerState(checkpoints=MappingProxyType({entry.checkpoint: entry for entry in entries}))


def outputs(ledger: LedgerState, *attempts: Any, has_checkpoints: bool = True) -> dict[str, str]:
    history = History(states=(a_state(RunState.SUCCEEDED, attempts=attempts),))
    return dict(outputs_of(history, ledger, run=RUN, has_checkpoints=has_checkpoints, restarts_used=1))


def test_the_outputs_name_the_newest_checkpoint_and_where_the_run_began() -> None:
    attempts = (
        an_attempt(resumed_step=100, first_step=101, last_step=250),
        an_attempt(attempt=1, resumed_step=200, first_step=201, last_step=300),
    )
    assert outputs(a_ledger(an_entry(200), an_entry(300, status="verified")), *attempts) == {
        "checkpoint": "step-300-term-1", "step": "300", "resume_step": "100", "restarts": "1", "outcome": "succeeded",
    }  # fmt: skip


def test_a_quarantined_checkpoint_is_not_the_runs_result() -> None:
    ledger = a_ledger(an_entry(200), an_entry(300, status="quarantined"))
    assert outputs(ledger, an_attempt(first_step=1))["checkpoint"] == "step-200-term-1"


def test_a_higher_step_of_an_earlier_run_is_not_this_runs_result() -> None:
    ledger = a_ledger(an_entry(500, run="exp-other"), an_entry(300, term=2))
    assert outputs(ledger, an_attempt(first_step=1))["checkpoint"] == "step-300-term-2"


def a_begin(term: int, source: str | None) -> BeginEntry:
    return BeginEntry(
        term=term, run=RUN, generation=term, attempt=0, reason="start", charged=False, source=source, at=AT
    )


def test_a_higher_step_of_an_abandoned_term_is_not_the_result() -> None:
    begins = (a_begin(1, None), a_begin(2, "step-200-term-1"))
    before = replace(a_ledger(an_entry(200), an_entry(400, status="verified")), begins=begins)
    assert outputs(before, an_attempt(first_step=201))["checkpoint"] == "step-200-term-1"  # it trained on from there

    entries = (an_entry(200), an_entry(400, status="verified"), an_entry(300, term=2))
    after = replace(a_ledger(*entries), begins=begins)
    assert outputs(after, an_attempt(first_step=201))["checkpoint"] == "step-300-term-2"


def test_a_term_whose_checkpoints_and_source_are_no_good_leaves_the_newest_of_its_run() -> None:
    entries = (an_entry(100), an_entry(200, status="quarantined"), an_entry(300, term=2, status="quarantined"))
    begins = (a_begin(1, None), a_begin(2, "step-200-term-1"))
    assert outputs(replace(a_ledger(*entries), begins=begins))["checkpoint"] == "step-100-term-1"


def test_a_program_with_nothing_left_to_do_says_so() -> None:
    ledger = a_ledger(an_entry(300, run="exp-other"))
    found = outputs(ledger, an_attempt(resumed_step=300, resumed_from="step-300-term-1"))
    assert found["outcome"] == "nothing left to do: the program ended at once at step 300"
    assert found["checkpoint"] == "step-300-term-1"


def test_a_success_without_any_checkpoint_is_a_failure() -> None:
    with pytest.raises(VerificationFailed, match="NothingCommitted: the program succeeded at step 7 without"):
        outputs(a_ledger(), an_attempt(first_step=1, last_step=7))


def test_without_checkpoints_the_last_step_is_the_result() -> None:
    found = outputs(a_ledger(), an_attempt(first_step=1, last_step=7), has_checkpoints=False)
    assert (found["checkpoint"], found["step"]) == ("", "7")


def a_report(status: CheckStatus) -> CheckReport:
    result = CheckResult(
        name="disk_space", status=status, hard=True, scope="node", measured="1 GiB", expected="5 GiB", origin="spec"
    )
    return CheckReport(subject="node", results=(result,))


def test_what_was_missing_is_named_node_by_node() -> None:
    agents = (
        running(0),
        running(1),
        AgentStatus(2, AgentPhase.PENDING),
        exited(3, signal="SIGKILL"),
        running(4),
    )
    reports = {0: a_report(CheckStatus.OK), 1: a_report(CheckStatus.FAIL)}
    assert missing_at_start(agents, a_state(RunState.STARTING, num_joined=2), reports, start_seconds=90.0) == (
        "not all ranks were running 1m30s after the gang was created: 2 of 5 nodes joined; "
        "node 1: disk_space fail (measured 1 GiB, expected 5 GiB); node 2 never started; "
        "node 3: the agent was killed by SIGKILL; node 4: the agent runs but has not finished its checks"
    )


def test_a_large_gang_that_lacks_one_thing_is_told_in_one_sentence() -> None:
    waiting = [AgentStatus(rank, AgentPhase.PENDING, waiting="Unschedulable: no GPU is free") for rank in range(1, 100)]
    others = [AgentStatus(rank, AgentPhase.PENDING, waiting=f"mount {rank}") for rank in range(100, 106)]
    text = missing_at_start((running(0), *waiting, *others), None, {0: a_report(CheckStatus.OK)}, start_seconds=1.0)
    assert "; nodes 1, 2, 3, 4, 5, 6, 7, 8 and 91 more never started (Unschedulable: no GPU is free); node 100 " in text
    assert text.endswith("; node 102 never started (mount 102); and 3 more nodes for other reasons")


def test_when_every_node_passed_the_ranks_are_what_is_missing() -> None:
    text = missing_at_start((running(0),), a_state(), {0: a_report(CheckStatus.OK)}, start_seconds=1.0)
    assert text.endswith("every node passed its checks, but not every rank started")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_intent_is_read_at_the_first_sigterm_and_never_again(tmp_path: Path) -> None:
    told = [False]
    intent = Intent(
        lambda: told[0], stop_file=str(tmp_path / "stop.json"), timeout_seconds=100.0, clock=Clock()
    )  # fmt: skip
    assert intent() is None
    told[0] = True
    assert intent() is StopCause.INTERRUPTED
    (tmp_path / "stop.json").touch()
    assert intent() is StopCause.INTERRUPTED


def test_a_stop_file_makes_a_sigterm_a_stop(tmp_path: Path) -> None:
    (tmp_path / "stop.json").touch()
    intent = Intent(lambda: True, stop_file=str(tmp_path / "stop.json"), timeout_seconds=100.0, clock=Clock())
    assert intent() is StopCause.REQUESTED


def test_a_sigterm_at_the_end_of_the_stages_time_is_its_deadline() -> None:
    clock = Clock()
    intent = Intent(lambda: True, stop_file="", timeout_seconds=100.0, clock=clock)
    clock.now = 98.5
    assert intent() is StopCause.DEADLINE


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ('{"level": "error", "message": "no port"}', "no port"),
        ("ImportError: \x1b[31mno\x00", "ImportError: [31mno"),
        ("[1, 2]", "[1, 2]"),
        ("x" * 400, "x" * 300),
        ("[" * 100_000, "[" * 300),
        ("first\nlast\n\n \n", "last"),
        ("", ""),
    ],
)
def test_an_agents_last_line_is_made_readable(line: str, text: str) -> None:
    assert last_line(line) == text
