"""What a launcher does first, given what earlier ones left."""

from pathlib import Path
from typing import Any

import pytest

from components.contracts.gang import GangState, GenerationView, LaunchState
from components.contracts.layout import log_chunk_key
from components.contracts.lifecycle import RunState
from components.launch.failure_policy import Finish, NewGeneration
from components.launch.history import History, begin_after, count_restarts, read_history
from components.ledger.state import BeginEntry, LedgerState
from components.storage.local import LocalStore
from tests.components.launch.values import AT, a_budget, a_generation, a_state, an_attempt

RUN = "exp-abcde"


def a_history(
    *generations: GenerationView, states: tuple[GangState, ...] = (), exit_code: int | None = None
) -> History:  # fmt: skip
    launch = LaunchState(
        run=RUN, backend="process", state=RunState.RUNNING, updated_at=AT, generations=generations, exit_code=exit_code
    )
    return History(launch, generations, states)


def ended(generation: int = 0, code: int = 92, **changes: Any) -> GenerationView:
    return a_generation(generation, ended_at=AT, exit_code=code, **changes)


@pytest.mark.parametrize(
    ("history", "reason", "charged"),
    [
        pytest.param(History(), "Start", False, id="the first launcher starts the first generation"),
        pytest.param(a_history(a_generation()), "LauncherLost", False, id="a launcher killed while the gang trained"),
        pytest.param(
            a_history(a_generation(), states=(a_state(RunState.STOPPED, exit_code=83),)), "LauncherLost", False,
            id="a launcher killed while it stopped the gang",
        ),
        pytest.param(a_history(ended(), exit_code=84), "LauncherInterrupted", False, id="an interrupted launcher"),
        pytest.param(a_history(ended(), exit_code=75), "LauncherInterrupted", False, id="a store that did not answer"),
        pytest.param(a_history(ended(code=90), exit_code=90), "Resumed", False, id="a failed run, resumed by a person"),
        pytest.param(a_history(ended(code=83), exit_code=83), "Resumed", False, id="a stopped run, resumed"),
        pytest.param(a_history(ended(code=0), exit_code=96), "Resumed", False, id="a success without a checkpoint"),
        pytest.param(a_history(ended()), "AgentLost", True, id="killed between two generations: the loss still counts"),
    ],
)  # fmt: skip
def test_a_new_generation_begins(history: History, reason: str, charged: bool) -> None:
    decision = begin_after(history, a_budget())
    assert isinstance(decision, NewGeneration)
    assert (decision.reason, decision.charged) == (reason, charged)


@pytest.mark.parametrize(
    ("history", "exit_code"),
    [
        pytest.param(a_history(ended(code=0), exit_code=0), 0, id="a success is not repeated"),
        pytest.param(a_history(ended(code=0), exit_code=75), 0, id="nor when the store failed after it"),
        pytest.param(
            a_history(a_generation(), states=(a_state(RunState.SUCCEEDED, exit_code=0),)), 0,
            id="nor when the launcher was killed before it saw it",
        ),
        pytest.param(
            a_history(a_generation(), states=(a_state(RunState.FAILED, exit_code=90),)), 90,
            id="a verdict the killed launcher had not seen stands",
        ),
        pytest.param(a_history(ended(code=90)), 90, id="a verdict the killed launcher had not concluded stands"),
    ],
)  # fmt: skip
def test_the_last_generations_verdict_stands(history: History, exit_code: int) -> None:
    decision = begin_after(history, a_budget())
    assert isinstance(decision, Finish)
    assert decision.exit_code == exit_code


def test_restarts_are_the_charged_begins_of_this_run() -> None:
    ledger = LedgerState(begins=(_begin(1, 0, charged=False), _begin(2, 0, charged=True), _begin(3, 1, charged=True)))
    history = a_history(ended(0), ended(1, charged=True))
    assert count_restarts(history, ledger, RUN) == 2


def test_a_charged_generation_that_died_before_its_begin_counts() -> None:
    ledger = LedgerState(begins=(_begin(1, 0, charged=False),))
    assert count_restarts(a_history(ended(0), ended(1, charged=True)), ledger, RUN) == 1


def test_without_checkpoints_agent_0_counts() -> None:
    states = (a_state(restarts_used=2, attempts=(an_attempt(term=0),)),)
    assert count_restarts(a_history(ended(0), ended(1, charged=True), states=states), LedgerState(), RUN) == 3


def test_restarts_of_another_run_do_not_count() -> None:
    ledger = LedgerState(begins=(_begin(1, 0, charged=True, run="exp-other"),))
    assert count_restarts(a_history(ended(0)), ledger, RUN) == 0


def test_a_generation_of_which_only_a_log_was_left_is_known_and_its_name_not_used_again(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.create(log_chunk_key(RUN, generation=0, stream="node-0", chunk=0), b"{}")
    history = read_history(store, RUN, warn=pytest.fail)
    assert [view.generation for view in history.generations] == [0]
    assert history.next_generation == 1


def _begin(term: int, generation: int, *, charged: bool, run: str = RUN) -> BeginEntry:
    return BeginEntry(term, run, generation, 0, "", charged, None, AT)
