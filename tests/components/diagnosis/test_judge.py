"""What `why` answers from what a cluster shows: recorded evidence, evidence made by hand, evidence that misleads."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from components.contracts.clock import parse_utc
from components.diagnosis.explain import explain
from components.diagnosis.judge import Answer, judge
from components.diagnosis.observed import Observed
from tests.components.diagnosis.made_cases import ADVERSARIAL, ROWS, Row

CASES = Path(__file__).parent / "cases"
EXPECTED: dict[str, dict[str, Any]] = json.loads((CASES / "expected.json").read_text())
RECORDED = sorted(path for path in CASES.glob("*.json") if path.name != "expected.json")


def answer_to(observed: Observed) -> Answer:
    return judge(observed, parse_utc(observed.taken_at))


def recorded(path: Path) -> Observed:
    return Observed.from_bytes(path.read_bytes(), where=path.name)


@pytest.mark.parametrize("path", RECORDED, ids=[path.stem for path in RECORDED])
def test_recorded_evidence_gets_its_cause(path: Path) -> None:
    expected = EXPECTED[path.stem]

    found = answer_to(recorded(path)).diagnosis

    assert (found.reason, found.actor.who) == (expected["reason"], expected["who"])
    assert [name for name in expected["names"] if name not in found.headline] == []


def test_every_recorded_case_says_what_is_expected_of_it_and_is_there() -> None:
    assert sorted(EXPECTED) == sorted(path.stem for path in RECORDED)
    assert len(RECORDED) >= 15


@pytest.mark.parametrize("row", [*ROWS, *ADVERSARIAL], ids=[row[0] for row in (*ROWS, *ADVERSARIAL)])
def test_evidence_made_by_hand_gets_its_cause(row: Row) -> None:
    _, observed, reason, who, names = row

    found = answer_to(observed).diagnosis

    assert (found.reason, found.actor.who) == (reason, who)
    assert [name for name in names if name not in found.headline] == []


@pytest.mark.parametrize("row", [*ROWS, *ADVERSARIAL], ids=[row[0] for row in (*ROWS, *ADVERSARIAL)])
def test_an_answer_says_since_when_on_what_evidence_and_what_to_do(row: Row) -> None:
    found = answer_to(row[1]).diagnosis

    assert found.action
    assert found.evidence or found.reason in ("StopRequested", "WorkflowGone")
    for text in (found.cause, found.action):
        assert "\n" not in text
        assert "{who}" not in text
        assert "{0}" not in text
        assert "{image}" not in text
        assert not text.endswith((".", ";", " "))
    assert all(item.object and item.field for item in found.evidence)


def test_the_second_cause_is_told_too() -> None:
    observed = ADVERSARIAL[0][1]

    answer = answer_to(observed)

    assert [other.reason for other in answer.others] == ["GpuShortage"]


def test_pods_with_the_same_cause_are_one_answer() -> None:
    from tests.components.diagnosis.made import evidence, unscheduled

    message = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."
    (found,) = explain(evidence(*(unscheduled(message, rank) for rank in range(5))), parse_utc("2026-11-29T12:01:00Z"))

    assert found.diagnosis().cause.startswith("node 0 of the gang (and 4 more) needs 8 nvidia.com/gpu")


def test_what_cannot_be_known_without_the_right_to_list_nodes_is_said() -> None:
    observed = next(row[1] for row in ROWS if row[0] == "GPUs in use, nodes unseen")

    told = [item.value for item in answer_to(observed).diagnosis.evidence if item.object == "nodes"]

    assert len(told) == 1
    assert "may not list nodes" in told[0]


def test_at_least_twenty_five_causes_are_told_apart() -> None:
    reasons = {row[2] for row in ROWS} | {row["reason"] for row in EXPECTED.values()}

    assert len(reasons - {"Unknown", "Starting", "Waiting", "Training"}) >= 50


def test_the_table_of_causes_is_what_the_cases_show() -> None:
    """Reasons of the run's own account, which stand elsewhere, are left out."""
    table = (Path(__file__).parents[3] / "components" / "diagnosis" / "README.md").read_text()
    rows = {
        match["reason"]: (set(match["who"].split(", ")), bool(match["mark"]))
        for match in re.finditer(r"^\| (?P<mark>● )?`(?P<reason>\w+)` \| (?P<who>[a-z, ]+) \|", table, re.MULTILINE)
    }
    shown: dict[str, set[str]] = {}
    for _, _, reason, who, _ in (*ROWS, *ADVERSARIAL):
        shown.setdefault(reason, set()).add(who)
    for row in EXPECTED.values():
        shown.setdefault(row["reason"], set()).add(row["who"])
    own = {"StopRequested", "Terminated", "Training", "WorkerFailed", "WorkflowGone"}

    assert {reason: who for reason, (who, _) in rows.items()} == {
        reason: who for reason, who in shown.items() if reason not in own
    }
    assert {reason for reason, (_, mark) in rows.items() if mark} == {row["reason"] for row in EXPECTED.values()}
