"""The first failure: a taken port is only called the rendezvous' when the program says so."""

import pytest

from components.agent.first_failure import ExitSeen, first_failure
from components.agent.messages import RankExited


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "port: 4711, name: EADDRINUSE, message: address already in use",
            "rank 0 found the rendezvous port 4711 taken",
        ),
        (
            "OSError: [Errno 98] Address already in use",
            "rank 0 found a port, perhaps the rendezvous port 4711, taken",
        ),
        ("tensorboard: port 6006: address already in use", "rank 0 exited with code 1"),
    ],
)
def test_a_taken_port_is_named_as_far_as_it_is_known(line: str, message: str) -> None:
    ending = RankExited(attempt=0, rank=0, exit_code=1, at=1.0, last_lines=(line,))
    failure = first_failure([ExitSeen(0, ending)], master_port=4711, has_stepped=False)
    assert failure is not None
    assert failure.message == message
