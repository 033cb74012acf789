"""What must hold in a disturbed run, by its ledger's records and by what its ranks told of their steps. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Change = Mapping[str, Any]


@dataclass(frozen=True)
class Told:
    """One line of a rank."""

    generation: int
    attempt: int
    rank: int
    event: str
    step: int
    at: float
    """Unix seconds."""


def assert_trained_once(changes: Sequence[Change], told: Iterable[Told], *, last: int, ranks: Iterable[int]) -> None:
    """Terms one after the other, each commit in the term that then was the newest, no step of a lineage twice, and no
    rank at work in two terms at once.

    `told`: one line a step. `last`: the step at which the run ended.
    """
    begins = [item for item in changes if item["kind"] == "begin"]
    assert [item["term"] for item in begins] == list(range(1, len(begins) + 1)), "terms are not 1, 2, 3 ..."
    generations = [item["generation"] for item in begins]
    assert generations == sorted(generations), f"an earlier generation began again: {generations}"
    steps = _steps_of_checkpoints(changes)
    assert max(steps.values()) == last, f"the last checkpoint is of step {max(steps.values())}, not {last}"
    lines = list(told)
    for item in begins:
        for rank in ranks:
            _assert_follows(item, rank, lines, base=steps[item.get("source")])
    _assert_one_after_the_other(begins, lines)


def _steps_of_checkpoints(changes: Sequence[Change]) -> Mapping[str | None, int]:
    """By checkpoint; a fresh start is step 0."""
    term, base = 0, 0
    steps, verified = dict[str | None, int]({None: 0}), [0]
    for item in changes:
        match item["kind"]:
            case "begin":
                term, base = item["term"], steps[item.get("source")]
                assert base >= max(verified), f"term {term} began from step {base}, but {max(verified)} was verified"
            case "commit":
                assert item["term"] == term, f"{item['checkpoint']} was committed while term {term} was the newest"
                assert item["step"] > base, f"{item['checkpoint']} was committed in a term that began from step {base}"
                steps[item["checkpoint"]] = item["step"]
            case "verified":
                verified.append(steps[item["checkpoint"]])
            case "quarantine":
                raise AssertionError(f"{item['checkpoint']} was quarantined: {item['reason']}")
    assert max(verified) == max(steps.values()), "the last checkpoint was never verified"
    return steps


def _assert_follows(begin: Change, rank: int, lines: Iterable[Told], *, base: int) -> None:
    """A START goes on right after its source, step by step."""
    start = (begin["generation"], begin["attempt"], rank)
    own = [line.step for line in lines if (line.generation, line.attempt, line.rank) == start]
    assert own == list(range(base + 1, base + 1 + len(own))), f"term {begin['term']}, rank {rank}, from {base}: {own}"


def _assert_one_after_the_other(begins: Iterable[Change], lines: Sequence[Told]) -> None:
    """Whatever its rank: the last step of a term was before the first of the next."""
    ended, before = 0.0, 0
    for item in begins:
        start = (item["generation"], item["attempt"])
        at = [line.at for line in lines if (line.generation, line.attempt) == start]
        if at:
            assert min(at) > ended, f"term {item['term']} had begun {ended - min(at):.1f} s before term {before} ended"
            ended, before = max(at), item["term"]
