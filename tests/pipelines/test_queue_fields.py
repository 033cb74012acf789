"""`queue` in a run description: what it adds to the launcher's deadline, and where it would have no effect."""

from typing import Any

import pytest

from components.errors import BadInput
from pipelines.config import TrainConfig, load_config
from pipelines.specs import launch_spec


def described(*overrides: str) -> TrainConfig:
    return load_config(recipe="tiny", overrides=overrides)


def refused(*overrides: str) -> str:
    with pytest.raises(BadInput) as caught:
        described(*overrides)
    return str(caught.value)


def told(*overrides: str) -> Any:
    pods = launch_spec(described(*overrides)).pods
    assert pods is not None
    return pods.queue


def test_the_launcher_is_told_of_queue_priority_and_limit() -> None:
    assert told() is None
    queue = told("queue={name: main, priority: high}", "launch.limits.queue=3h")
    assert (queue.name, queue.priority, queue.limit_seconds) == ("main", "high", 10800.0)
    assert told("queue={name: main}").limit_seconds == 7200.0


def test_agents_are_told_nothing_of_it() -> None:
    assert "queue" not in str(launch_spec(described("queue={name: main}")).limits.as_json())


def test_the_launchers_deadline_holds_a_wait_for_each_gang_and_one_for_all_preemptions() -> None:
    limits = ("launch.limits={start: 1m, stop: 1m, run: 1h, no_progress: 5m}", "launch.max_restarts=1")
    assert described(*limits).launch_timeout == 2 * 120 + 3600 + 300
    queued = described(*limits, "queue={name: main}", "launch.limits.queue=10m")
    assert queued.launch_timeout == 2 * (600 + 120) + 600 + 3600 + 300
    words = refused(*limits, "queue={name: main}", "launch.timeout=2h")
    assert "(max_restarts + 1) * (queue + start + stop) + queue + run + 5m" in words


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (("launch.limits.queue=1h",), "launch.limits.queue: has no effect without queue"),
        (("queue={name: main}", "launch.backend=process"), "has no effect with launch.backend: process"),
        (("queue={name: Main}",), "queue.name"),
        (("queue={priority: high}",), "queue.name"),
    ],
)
def test_what_cannot_act_or_be_meant_is_refused(overrides: tuple[str, ...], words: str) -> None:
    assert words in refused(*overrides)
