"""Whole runs, asked `why` again and again with just the rights of a submitter: one that is well, some that are not."""

import time
from collections.abc import Callable
from typing import Any

from tests.cluster.harness import ClusterRun

Answer = dict[str, Any]
_ABSENT = "registry.invalid/argosy/train@sha256:" + "a" * 64
_EAT = "x = bytearray(600_000_000)\nfor i in range(0, len(x), 4096): x[i] = 1\nimport time; time.sleep(600)"


def answers(run: ClusterRun, *, until: Callable[[Answer], bool] = lambda answer: False) -> list[Answer]:
    """Every other answer from the first Workflow to the run's end, or until one is as wanted."""
    told: list[Answer] = []
    while not run.has_ended():
        answer = run.ask("why")
        if not told or told[-1]["reason"] != answer["reason"]:
            told.append(answer)
        if until(answer):
            return told
        time.sleep(1.0)
    return [*told, run.ask("why")]


def test_a_run_that_is_well_is_never_called_faulty(runs: Callable[..., ClusterRun]) -> None:
    run = runs("why-well").start()

    told = answers(run)

    assert [(answer["reason"], answer["cause"]) for answer in told if answer["who"] != "wait"] == []
    assert told[-1]["reason"] == "Succeeded"
    assert {"pods", "events", "jobs", "jobsets"} & told[-1]["withheld"].keys() == set()


def test_an_image_that_is_not_there_is_named_while_it_waits_and_after_it_ended(
    runs: Callable[..., ClusterRun],
) -> None:
    run = runs("why-image", image=_ABSENT, launch__limits__start="60s", launch__max_restarts=0).start()

    told = answers(run)

    waiting = next(answer for answer in told if answer["reason"] == "RegistryUnreachable")
    assert _ABSENT in waiting["cause"]
    assert told[-1]["state"] in ("Failed", "Stopped")
    assert told[-1]["reason"] == "RegistryUnreachable"


def test_a_program_that_eats_its_memory_is_named_after_it_ended(runs: Callable[..., ClusterRun]) -> None:
    run = runs("why-memory", launch__command=["python3", "-c", _EAT], launch__max_restarts=0, num_nodes=1).start()

    told = answers(run)

    assert told[-1]["reason"] in ("OutOfMemory", "Killed")
    assert told[-1]["who"] == "you"


def test_a_run_that_was_stopped_says_by_whom(runs: Callable[..., ClusterRun]) -> None:
    run = runs("why-stop", steps=2000).start()
    answers(run, until=lambda answer: answer["reason"] == "Training")

    assert run.command("stop", run.name).returncode == 0
    told = answers(run)

    assert told[-1]["reason"] == "StopRequested"
    assert told[-1]["who"] == "you"
