"""A gang that cannot be made, or cannot start: told while it is so, ended in time, and nobody else's objects touched.

The runs of this file stand side by side.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.cluster.harness import ClusterRun, wait_until
from tests.cluster.place import Place

NO_IMAGE = "localhost/argosy-no-such-image@sha256:" + "0" * 64


@dataclass(frozen=True)
class Begun:
    without_image: ClusterRun
    beside_a_service: ClusterRun
    """Somebody's Service has the name that its gang's would have."""


@pytest.fixture(scope="module")
def begun(place: Place, runs: Callable[..., ClusterRun]) -> Begun:
    without_image = runs("no-image", image=NO_IMAGE, launch__limits__start="30s").start()
    beside_a_service = runs("beside-a-service").start()
    place.kubectl("create", "service", "clusterip", f"{beside_a_service.name}-g0", "--tcp=80:80")
    return Begun(without_image, beside_a_service)


def test_an_image_of_the_gang_that_cannot_be_pulled_is_told_and_costs_no_restart(begun: Begun) -> None:
    run = begun.without_image
    wait_until(
        lambda: "RegistryUnreachable: " in run.command("status", run.name).stdout, what="status to name the image",
        give_up=run.over,
    )  # fmt: skip

    assert run.finish() == 83

    assert "gang waits: 2 of 2 nodes did not start yet; node 0: program: ErrImagePull: failed to pull" in run.terminal()
    state = run.launch_state()
    assert state is not None
    assert (state["reason"], len(state["generations"])) == ("StartDeadline", 1)
    assert run.gang_objects() == []


def test_an_object_of_somebody_else_under_the_gangs_name_is_named_and_left_alone(begun: Begun, place: Place) -> None:
    run = begun.beside_a_service
    assert run.finish() == 78
    name = f"{run.name}-g0"
    assert f"Service {name}: is in namespace {place.namespace} already and not Argosy's" in run.terminal()
    assert run.gang_objects() == []
    place.kubectl("delete", "service", name)
