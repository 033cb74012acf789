"""Runs that wait or fail in fifty ways on a real cluster, and what `why` says of each.

With ARGOSY_RECORD=FOLDER the evidence is kept there: so the corpus in `tests/components/diagnosis/cases` is made.
"""

import json
import os
import time
from pathlib import Path

import pytest

from components.cluster.api import KubernetesCluster
from components.cluster.kinds import LOCAL_QUEUES
from components.contracts.clock import parse_utc
from components.diagnosis.judge import Answer, judge
from components.diagnosis.observed import Observed
from components.errors import ArgosyError
from pipelines.cli.find import find_run
from pipelines.cli.targets import PlaceOptions
from pipelines.cli.why_file import save
from pipelines.cli.why_observe import observe
from tests.cluster.why_cases import CANARY, CASES, Case
from tests.cluster.why_stage import Stage, run_of, scene

pytestmark = [
    pytest.mark.platform,
    pytest.mark.cluster,
    pytest.mark.timeout(900),
    pytest.mark.skipif("DEVCLUSTER_TRAIN_IMAGE" not in os.environ, reason="needs the development cluster's variables"),
]
LIMIT_SECONDS = 200.0


def looked_at(stage: Stage, case: Case) -> tuple[Observed, Answer]:
    run = find_run(run_of(case), PlaceOptions(target="kubernetes", namespace=stage.namespace(case)))
    observed = observe(run)
    return observed, judge(observed, parse_utc(observed.taken_at))


def is_right(case: Case, answer: Answer) -> bool:
    found = answer.diagnosis
    return (
        found.reason == case.reason and found.actor.who == case.who
        and all(name in found.headline for name in case.names)
    )  # fmt: skip


def keep(case: Case, observed: Observed) -> None:
    folder = os.environ.get("ARGOSY_RECORD")
    if folder:
        save(observed, Path(folder) / f"{case.name}.json")
        table = Path(folder) / "expected.json"
        rows = json.loads(table.read_text()) if table.exists() else {}
        rows[case.name] = {"reason": case.reason, "who": case.who, "names": list(case.names)}
        table.write_text(json.dumps(rows, indent=1, sort_keys=True) + "\n")


def test_every_way_to_wait_or_fail_gets_its_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARGOSY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    only = os.environ.get("ARGOSY_WHY_CASES", "").split()
    open_cases = {case.name: case for case in CASES if not only or case.name in only}
    if KubernetesCluster.connect().serves(LOCAL_QUEUES):
        open_cases = {name: case for name, case in open_cases.items() if "no kueue" not in case.needs}
    last: dict[str, str] = {}
    with scene(os.environ["DEVCLUSTER_TRAIN_IMAGE"], os.environ["DEVCLUSTER_PLATFORM_IMAGE"]) as stage:
        for case in open_cases.values():
            stage.play(case)
        to_do = {name for name, case in open_cases.items() if case.then}
        end = time.monotonic() + LIMIT_SECONDS
        while open_cases and time.monotonic() < end:
            for name, case in list(open_cases.items()):
                if name in to_do and not stage.act(case):
                    continue
                to_do.discard(name)
                try:
                    observed, answer = looked_at(stage, case)
                except ArgosyError as error:
                    last[name] = str(error)
                    continue
                assert CANARY not in observed.to_bytes().decode()
                last[name] = answer.diagnosis.headline
                if is_right(case, answer):
                    keep(case, observed)
                    del open_cases[name]
            time.sleep(1.0)
        wrong = {name: f"{last.get(name)} instead of {case.reason}" for name, case in open_cases.items()}
        for name, case in open_cases.items():
            folder = os.environ.get("ARGOSY_RECORD")
            if folder and name in last:
                (Path(folder) / "wrong").mkdir(exist_ok=True)
                save(looked_at(stage, case)[0], Path(folder) / "wrong" / f"{name}.json")
    assert wrong == {}
