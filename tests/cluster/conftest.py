"""A place of its own for every file of tests here, evidence when one fails, and the figures that tests saw."""

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from tests.cluster.harness import ClusterRun, description
from tests.cluster.place import Place, a_place, wait_for_removed

TIMEOUT_SECONDS = 1800
CORPUS = {f"{name}.txt": f"The {name} of the corpus. ".encode() * 400 for name in ("first", "second", "third")}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/cluster/" in item.nodeid and "place" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.cluster)
            item.add_marker(pytest.mark.timeout(TIMEOUT_SECONDS))
            if not os.environ.get("KUBECONFIG"):
                item.add_marker(pytest.mark.skip(reason="KUBECONFIG names no cluster"))


@pytest.fixture(scope="session", autouse=True)
def everything_goes() -> Iterator[None]:
    """After the last test nothing of any place is left."""
    yield
    wait_for_removed()


@pytest.fixture(scope="module")
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """The file's namespace, with Argosy in it, and its folder of the storage; all gone afterwards."""
    name = request.module.__name__.rpartition(".")[2].removeprefix("test_").replace("_", "-")
    yield from a_place(name[:24], tmp_path_factory.mktemp(name))


@pytest.fixture(scope="module")
def corpus(place: Place) -> str:
    """A small one, uploaded; its uri."""
    return place.upload("small", CORPUS)


@pytest.fixture(scope="module")
def runs(place: Place, corpus: str) -> Iterator[Callable[..., ClusterRun]]:
    """Makes runs of small descriptions: `runs("name", steps=30, launch__max_restarts=1)`. Not started yet."""
    made: list[ClusterRun] = []

    def make(experiment: str, *, target: str = "kubernetes", **changes: Any) -> ClusterRun:
        value: Mapping[str, Any] = description(place, experiment, corpus=changes.pop("corpus", corpus), **changes)
        made.append(ClusterRun(place, value, target=target, home=f"{experiment}-{len(made)}"))
        return made[-1]

    place.runs = made
    yield make
    for run in made:
        run.close()


@pytest.fixture
def figure(record_property: Callable[[str, object], None]) -> Callable[[str, float], None]:
    """Tells how many seconds something took; printed at the end of all tests."""
    return lambda what, seconds: record_property("figure", (what, seconds))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    report = yield
    place = getattr(item, "funcargs", {}).get("place")
    if report.failed and isinstance(place, Place):
        report.sections.append(("on the cluster", place.evidence()))
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    reports = [report for key in ("passed", "failed") for report in terminalreporter.stats.get(key, ())]
    figures = [value for report in reports for key, value in report.user_properties if key == "figure"]
    if figures:
        terminalreporter.section("seen on the cluster")
        for what, seconds in sorted(figures):
            terminalreporter.write_line(f"{seconds:8.1f} s  {what}")
