"""Ports on loopback, shared memory and open files."""

import resource
import socket

import pytest

from components.checks.limits import free_shm, judge_open_files, judge_shm, open_files_question, shm_question
from components.checks.ports import port_can_be_reached, port_can_be_used, port_question, reach_question
from components.contracts.checks import CheckStatus

MIB = 1 << 20


def test_any_free_port_of_loopback_can_be_used() -> None:
    result = port_can_be_used(port_question(host="127.0.0.1", port=0), host="127.0.0.1")
    assert result.status is CheckStatus.OK
    assert result.subject == "127.0.0.1:any"


def test_a_port_that_is_taken_fails() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = port_can_be_used(port_question(host="127.0.0.1", port=port), host="127.0.0.1", port=port)
    assert (result.status, result.measured) == (CheckStatus.FAIL, "cannot listen: Address already in use")
    assert result.remedy == "end the process that holds it, or choose another port"


def test_an_address_of_another_machine_cannot_be_listened_on() -> None:
    result = port_can_be_used(port_question(host="192.0.2.1", port=0), host="192.0.2.1")
    assert result.status is CheckStatus.FAIL


def test_a_host_nobody_knows_fails() -> None:
    host = "no-such-host.invalid"
    assert "does not resolve" in port_can_be_used(port_question(host=host, port=0), host=host).measured


def test_a_peer_that_listens_is_reached_and_one_that_does_not_is_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as peer:
        port = peer.getsockname()[1]
        question = reach_question(host="127.0.0.1", port=port)
        assert port_can_be_reached(question, host="127.0.0.1", port=port).status is CheckStatus.OK
    refused = port_can_be_reached(question, host="127.0.0.1", port=port)
    assert (refused.status, refused.measured) == (CheckStatus.FAIL, "cannot connect: Connection refused")


@pytest.mark.parametrize(
    ("free", "status"),
    [(128 * MIB, CheckStatus.OK), (127 * MIB, CheckStatus.WARN), (None, CheckStatus.WARN)],
)
def test_little_shared_memory_is_a_warning(free: int | None, status: CheckStatus) -> None:
    assert judge_shm(shm_question(num_ranks=2), free_bytes=free, num_ranks=2).status is status


def test_shared_memory_of_this_machine_is_measured() -> None:
    free = free_shm()
    assert free is None or free >= 0


@pytest.mark.parametrize(
    ("limit", "status"),
    [(1024, CheckStatus.OK), (256, CheckStatus.WARN), (resource.RLIM_INFINITY, CheckStatus.OK)],
)
def test_few_open_files_are_a_warning(limit: int, status: CheckStatus) -> None:
    assert judge_open_files(open_files_question(), limit=limit).status is status
