"""Taking an experiment over from a run that is over: from that one only."""

from pathlib import Path
from typing import Any, cast

import pytest

from components.launch.run import claim_experiment
from components.launch.surroundings import Place
from components.ledger.ledger import Ledger, RunActive, claim
from components.ledger.owner import Owner, this_process
from components.storage.base import open_store


def owner(number: int) -> Owner:
    """Of some pod: nobody but the cluster can tell whether it lives."""
    return this_process(target="kubernetes").model_copy(
        update={"host": f"pod-{number}", "boot_id": "", "pid": 17, "machine_id": "", "cluster": "c/ns"}
    )


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(open_store(f"file://{tmp_path}"), "gpt", "v1")


def a_place(is_run_over: Any) -> Place:
    """Nothing is launched, so no backend is asked."""
    return Place(backend=cast(Any, None), owner=owner(3), is_run_over=is_run_over, ask=lambda: None, program_folder="")


def test_the_claim_of_a_run_that_is_over_is_taken(ledger: Ledger) -> None:
    claim(ledger, run="old", owner=owner(1), is_gone=lambda _: False)

    claim_experiment(ledger, "new", a_place(lambda run, by: (run, by) == ("old", owner(1))))

    held = ledger.state().claim
    assert held is not None
    assert held.run == "new"


def test_whoever_took_it_meanwhile_keeps_it(ledger: Ledger) -> None:
    claim(ledger, run="old", owner=owner(1), is_gone=lambda _: False)

    def over_and_taken(run: str, by: Owner) -> bool:
        claim(ledger, run="other", owner=owner(2), is_gone=lambda _: True)
        return run == "old"

    with pytest.raises(RunActive, match="run other"):
        claim_experiment(ledger, "new", a_place(over_and_taken))
