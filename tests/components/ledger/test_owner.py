"""A claim may be taken over only from a process that provably can never run again."""

import subprocess
import sys

import pytest

from components.ledger.owner import Owner, is_gone, this_process
from components.runtime.processes import start_time


def of_child(pid: int) -> Owner:
    return this_process(target="local").model_copy(update={"pid": pid, "started": start_time(pid)})


def test_this_process_is_not_gone() -> None:
    assert not is_gone(this_process(target="local"))


def test_a_process_is_gone_once_it_ended() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    owner = of_child(child.pid)
    assert not is_gone(owner)

    child.communicate(b"\n")

    assert is_gone(owner)


def test_another_process_with_the_same_pid_is_not_the_owner() -> None:
    owner = this_process(target="local")

    assert is_gone(owner.model_copy(update={"started": 1}))


def test_everything_of_an_earlier_boot_is_gone() -> None:
    assert is_gone(this_process(target="local").model_copy(update={"boot_id": "an-earlier-one"}))


@pytest.mark.parametrize(
    "elsewhere",
    [{"host": "other"}, {"machine_id": "other"}, {"boot_id": ""}, {"pid_namespace": "pid:[1]", "started": 1}],
)
def test_what_cannot_be_proved_from_here_counts_as_alive(elsewhere: dict[str, object]) -> None:
    assert not is_gone(this_process(target="local").model_copy(update=elsewhere))
