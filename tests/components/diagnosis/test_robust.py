"""Evidence that is cut, edited or strange is judged all the same: something is said, and nothing breaks."""

import json
import random
from typing import Any

import pytest

from components.contracts.clock import parse_utc
from components.diagnosis.constraints import Limit, read_verdict
from components.diagnosis.judge import judge
from components.diagnosis.observed import Observed
from tests.components.diagnosis.made_cases import ADVERSARIAL, ROWS

NUM_DAMAGES = 12
_STRANGE: tuple[Any, ...] = (None, 7, "", "x", [], {}, [None], {"a": None}, True, -1.5)


@pytest.mark.parametrize("row", [*ROWS, *ADVERSARIAL], ids=[row[0] for row in (*ROWS, *ADVERSARIAL)])
def test_damaged_objects_are_judged_without_a_fault(row: Any) -> None:
    chance = random.Random(row[0])
    for _ in range(NUM_DAMAGES):
        value = row[1].as_json()
        for kind in ("pods", "jobs", "jobsets", "queued", "queues", "events", "nodes", "workflows"):
            for item in value.get(kind) or ():
                _damage(item, chance)
        observed = Observed.model_validate_json(json.dumps(value))

        assert judge(observed, parse_utc(observed.taken_at)).diagnosis.reason


def _damage(value: Any, chance: random.Random) -> None:
    """Somewhere below, one thing is gone or another."""
    keys = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    if not keys:
        return
    key = chance.choice(keys)
    if isinstance(value[key], dict | list) and value[key] and chance.random() < 0.75:
        _damage(value[key], chance)
    elif isinstance(value, dict) and chance.random() < 0.5:
        del value[key]
    else:
        value[key] = chance.choice(_STRANGE)


@pytest.mark.parametrize(
    ("message", "found"),
    [
        ("0/4 nodes are available: 1 Insufficient cpu, 3 Insufficient memory.",
         [(Limit.RESOURCE, 1, "cpu"), (Limit.RESOURCE, 3, "memory")]),
        ("0/9 nodes are available: 3 node(s) had taint {a: b}, that the pod didn't tolerate, 6 Insufficient x/y.",
         [(Limit.TAINT, 3, "a: b"), (Limit.RESOURCE, 6, "x/y")]),
        ("0/2 nodes are available: 2 node(s) had untolerated taint {node.kubernetes.io/disk-pressure: }. "
         "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
         [(Limit.NODE_DOWN, 2, "disk-pressure")]),
        ("0/3 nodes are available: 1 node(s) were unschedulable, 2 node(s) didn't match pod anti-affinity rules.",
         [(Limit.NODE_DOWN, 1, "unschedulable"), (Limit.POD_AFFINITY, 2, "")]),
        ('0/3 nodes are available: persistentvolumeclaim "data" not found. not found.',
         [(Limit.CLAIM_MISSING, 3, "data")]),
        ("0/3 nodes are available: 3 node(s) didn't find available persistent volumes to bind.",
         [(Limit.VOLUME, 3, "")]),
        ("0/3 nodes are available: 3 node(s) failed a new predicate.",
         [(Limit.UNKNOWN, 3, "node(s) failed a new predicate")]),
        ("no nodes available to schedule pods", [(Limit.UNKNOWN, 0, "no nodes available to schedule pods")]),
        ("", []),
    ],
)  # fmt: skip
def test_a_schedulers_message_is_read_part_by_part(message: str, found: list[tuple[Limit, int, str]]) -> None:
    assert [(item.limit, item.num_nodes, item.what) for item in read_verdict(message).removals] == found
