"""Builders of what the launcher sees; a test names only what matters to it."""

from typing import Any

from components.contracts.gang import AttemptView, Failure, FailureKind, GangState, GenerationView
from components.contracts.lifecycle import RunState
from components.launch.backend import AgentPhase, AgentStatus
from components.launch.failure_policy import Budget

AT = "2026-11-29T12:00:00.000Z"


def running(node_rank: int) -> AgentStatus:
    return AgentStatus(node_rank, AgentPhase.RUNNING)


def exited(node_rank: int, code: int | None = None, *, signal: str | None = None, by_us: bool = False) -> AgentStatus:
    return AgentStatus(node_rank, AgentPhase.EXITED, exit_code=code, signal=signal, ended_by_us=by_us)


def a_state(state: RunState = RunState.RUNNING, **changes: Any) -> GangState:
    values: dict[str, Any] = {
        "run": "exp-abcde", "generation": 0, "state": state, "world_size": 2, "num_joined": 2,
        "updated_at": AT, "created_at": AT, **changes,
    }  # fmt: skip
    return GangState(**values)


def an_attempt(**changes: Any) -> AttemptView:
    return AttemptView(**{"term": 1, "attempt": 0, "started_at": AT, **changes})


def a_failure(kind: FailureKind = FailureKind.RANK_EXIT, **changes: Any) -> Failure:
    return Failure(**{"kind": kind, "message": "it failed", "at": AT, **changes})


def a_generation(generation: int = 0, **changes: Any) -> GenerationView:
    return GenerationView(**{"generation": generation, "created_at": AT, **changes})


def a_budget(*, used: int = 0, allowed: int = 2, replaces_nodes: bool = False) -> Budget:
    return Budget(used, allowed, replaces_nodes)
