"""What keeps a gang from starting is told while it lasts, once, and not before everybody had a moment."""

import io
import json

import pytest

from components.launch.backend import AgentPhase, AgentStatus
from components.launch.missing import Complaints, what_it_avoids
from components.runtime.log import Log
from tests.components.launch.values import a_generation, running

NO_PLACE = "Unschedulable: 0/3 nodes are available: 3 Insufficient cpu."
NO_IMAGE = "program: ErrImagePull: failed to pull hub/a:1"


def waits(node_rank: int, text: str) -> AgentStatus:
    return AgentStatus(node_rank, AgentPhase.PENDING, waiting=text)


class Seen:
    """Looks at a gang, and what its log says."""

    def __init__(self) -> None:
        self._stream = io.StringIO()
        self._complaints = Complaints(Log({}, self._stream))

    def __call__(self, *agents: AgentStatus, after: float = 6.0) -> str:
        self._complaints.look(agents, since_creation=after)
        return self._complaints.text

    @property
    def log(self) -> list[str]:
        return [json.loads(line)["message"] for line in self._stream.getvalue().splitlines()]


@pytest.fixture
def look() -> Seen:
    return Seen()


def test_the_first_node_that_waits_and_how_many_do_are_told_once(look: Seen) -> None:
    told = f"2 of 3 nodes did not start yet; node 1: {NO_PLACE}"
    for _ in range(2):
        assert look(running(0), waits(1, NO_PLACE), waits(2, NO_PLACE)) == told
    assert look.log == [told]


def test_a_node_that_has_just_been_asked_for_or_has_no_complaint_is_not_told(look: Seen) -> None:
    assert look(waits(0, NO_PLACE), after=4.9) == ""
    assert look(waits(0, "")) == ""
    assert look.log == []


def test_an_image_that_is_tried_again_and_again_is_one_complaint_until_something_else_is(look: Seen) -> None:
    first = look(waits(0, NO_IMAGE))
    assert look(waits(0, "program: ImagePullBackOff: Back-off pulling image hub/a:1")) == first
    second = look(waits(0, "program: CreateContainerConfigError: secret hub not found"))
    assert look.log == [first, second]


def test_it_is_over_when_all_have_started(look: Seen) -> None:
    assert look(waits(0, NO_PLACE)) != ""
    assert look(running(0)) == ""


def test_the_verdict_says_which_nodes_a_gang_had_to_avoid_and_why() -> None:
    before = a_generation(message="node 1 is unfit: memory fail")
    after = a_generation(1, begin_reason="NodeUnfit", excluded_nodes=("box-1", "box-2"))
    assert what_it_avoids(before, ()) == ""
    assert what_it_avoids(after, (before,)) == (
        "; it had to avoid box-1, box-2 after NodeUnfit: node 1 is unfit: memory fail"
    )
