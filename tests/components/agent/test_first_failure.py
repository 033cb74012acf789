"""The first failure: who failed is told from who lost it; a taken port is only the rendezvous' when it is said so."""

from math import inf

import pytest

from components.agent.first_failure import ExitSeen, first_failure, patience_seconds
from components.agent.messages import RankExited
from components.contracts.gang import Failure


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


def seen(
    rank: int, at: float, code: int | None = 1, *, signal: str | None = None, says: str = "", within: float = 0.0,
    by_us: bool = False,
) -> ExitSeen:  # fmt: skip
    ending = RankExited(
        attempt=0, rank=rank, exit_code=None if signal else code, signal=signal, ended_by_us=by_us, at=at,
        last_lines=("step 7", says, "Traceback"),
    )  # fmt: skip
    return ExitSeen(rank, ending.model_copy(update={"within": within}))


def blamed(*exits: ExitSeen) -> Failure:
    failure = first_failure(exits, master_port=4711, has_stepped=True)
    assert failure is not None
    return failure


def test_the_clock_decides_between_equals() -> None:
    failure = blamed(seen(0, 10.004), seen(1, 10.0, 3))
    assert (failure.rank, failure.exit_code) == (1, 3)
    assert failure.message == "rank 1 exited with code 3; rank 0 exited with code 1 0.004 s later"
    assert failure.also == "rank 0 exited with code 1 0.004 s later"


@pytest.mark.parametrize(
    "says",
    [
        "a peer is gone",
        "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.1]:4711",
        "Read error [10.0.0.1]:4711: Connection reset by peer",
        "ConnectionResetError: [Errno 104] Connection reset by peer",
        "BrokenPipeError: [Errno 32] Broken pipe",
        "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
        "RuntimeError: [unbound_buffer.cc:84] Timed out waiting 1800000ms for recv operation to complete",
        "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7) ran for 600000 milliseconds",
    ],
)
@pytest.mark.parametrize("signal", [None, "SIGABRT"])
def test_who_lost_a_peer_is_not_blamed_though_it_is_the_first_to_be_dead(says: str, signal: str | None) -> None:
    failure = blamed(seen(0, 10.0, signal=signal, says=says), seen(1, 10.4))
    assert failure.rank == 1
    how = "was killed by SIGABRT" if signal else "exited with code 1"
    assert failure.message == f"rank 1 exited with code 1; rank 0 {how} 0.400 s earlier"


@pytest.mark.parametrize(
    "says",
    [
        "ValueError: the peer review data set has no column 'text'",
        "FileNotFoundError: /data/connection.json",
        "RuntimeError: DataLoader worker (pid 71) is killed by signal: Killed.",
        "torch.OutOfMemoryError: CUDA out of memory.",
    ],
)
def test_an_error_of_its_own_is_no_lost_peer(says: str) -> None:
    assert blamed(seen(0, 10.0, says=says), seen(1, 10.4)).rank == 0


def test_when_all_have_lost_a_peer_the_first_is_named() -> None:
    assert blamed(seen(0, 10.2, says="Broken pipe"), seen(1, 10.1, says="Broken pipe")).rank == 1


def test_a_signal_comes_before_an_exit_that_is_as_close_as_the_clocks_can_tell() -> None:
    assert blamed(seen(0, 10.0), seen(1, 10.09, signal="SIGSEGV")).rank == 1
    assert blamed(seen(0, 10.0), seen(1, 10.4, signal="SIGSEGV")).rank == 0
    assert blamed(seen(0, 10.0), seen(1, 10.4, signal="SIGSEGV", within=0.5)).rank == 1


def test_no_gap_is_told_between_clocks_that_were_never_compared() -> None:
    failure = blamed(seen(0, 10.0), seen(1, 3610.0, signal="SIGSEGV", within=inf))
    assert failure.message == "rank 1 was killed by SIGSEGV; rank 0 exited with code 1 about then"


def test_of_many_ranks_that_followed_three_are_named() -> None:
    failure = blamed(*(seen(rank, 10.0 + rank) for rank in range(6)))
    assert failure.also == (
        "rank 1 exited with code 1 1.000 s later, rank 2 exited with code 1 2.000 s later, "
        "rank 3 exited with code 1 3.000 s later, 2 more ranks failed"
    )


def test_who_was_ended_by_us_is_neither_blamed_nor_named() -> None:
    failure = blamed(seen(0, 10.0, 3), seen(1, 9.9, signal="SIGTERM", by_us=True))
    assert (failure.rank, failure.also) == (0, None)


def test_the_others_are_given_time_only_while_the_cause_may_be_among_them() -> None:
    lost, own = seen(0, 10.0, says="a peer is gone"), seen(1, 10.1)
    assert patience_seconds([own]) == 0.3
    assert patience_seconds([lost]) == 1.0
    assert patience_seconds([lost, own]) == 0.0
    assert patience_seconds([seen(1, 10.0, signal="SIGKILL")]) == 0.0
    assert patience_seconds([seen(1, 10.0, signal="SIGABRT")]) == 0.3
