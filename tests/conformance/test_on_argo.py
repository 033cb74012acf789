"""A real Argo does with each case what the case says, so what it does is what the local engine does.

KUBECONFIG=… pytest -m cluster tests/conformance        (more variables: tests/cluster/README.md)
"""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.place import Place, a_place, wait_for_removed
from tests.conformance.case import Case, Ending, differences, read_cases
from tests.conformance.on_argo import run_there

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1200)]

CASES = read_cases()
ROOT = Path(__file__).parent.parent.parent
ARGO = Path(os.environ.get("ARGO", ROOT / "build" / "devcluster" / "bin" / "argo" / "argo"))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    yield from a_place("conformance", tmp_path_factory.mktemp("conformance"))
    wait_for_removed()


@pytest.fixture(scope="module")
def endings(place: Place) -> dict[str, Ending]:
    return run_there(CASES, place.cluster, image=place.image)


@pytest.mark.skipif(not os.environ.get("KUBECONFIG"), reason="KUBECONFIG names no cluster")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_argo_does_what_the_case_says(case: Case, endings: dict[str, Ending]) -> None:
    found = differences(case.expected, endings[case.name])
    if found and case.argos_other:
        found = differences(case.argos_other, endings[case.name])
    assert found == [], case.about


@pytest.mark.skipif(not ARGO.is_file(), reason="no argo program; name one by ARGO")
@pytest.mark.parametrize("path", sorted((ROOT / "tests" / "golden").glob("*.yaml")), ids=lambda path: path.stem)
def test_argos_own_lint_accepts_every_recipe(path: Path) -> None:
    result = subprocess.run([ARGO, "lint", "--offline", path], capture_output=True, text=True, check=False)

    assert result.returncode == 0, result.stdout + result.stderr
