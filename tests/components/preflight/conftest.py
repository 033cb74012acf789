"""A preflight stage to run in this process, on a storage of its own."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from components.contracts.checks import CheckReport
from components.contracts.gang import CheckpointRule, ResumeRule
from components.contracts.layout import preflight_report_key
from components.contracts.retention import RetentionPolicy
from components.preflight.run import preflight
from components.preflight.spec import PreflightSpec
from components.runtime.log import Log
from components.runtime.stage import StageContext
from components.storage.local import LocalStore

RUN = "e-bcdfg"


class Stage:
    """What a stage would have from the engine."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.store = folder, LocalStore(folder / "storage")
        self.log_text = io.StringIO()
        (folder / "corpus").mkdir(parents=True)
        (folder / "corpus/a.txt").write_text("some text")

    def run(self, **changes: Any) -> str:
        """The verdict, or the error raised."""
        context = StageContext(
            task="preflight", attempt=0, run=RUN, workflow="wf-1", storage=self.store.uri, workdir=str(self.folder),
            inputs={}, node="here", log=Log({}, stream=self.log_text), started_at="2026-11-29T19:00:00.000Z",
        )  # fmt: skip
        return preflight(context, a_spec(**changes))["verdict"]

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log_text.getvalue().splitlines()]

    def report(self) -> CheckReport:
        return CheckReport.from_bytes(self.store.read(preflight_report_key(RUN)), where="the report")


def a_spec(**changes: Any) -> PreflightSpec:
    rule = CheckpointRule(every_steps=5, writers="rank0", verify_level="tensors", retain=RetentionPolicy())
    spec = PreflightSpec(
        experiment="e", model_version="v1", corpus="corpus", num_nodes=2, nproc_per_node=1,
        command=("sh", "-c", "true"), start="rank", backend="process", checkpoint=rule,
        resume=ResumeRule(source="latest", on_new_data="refuse"), memory_per_rank_bytes=1 << 20, min_free_bytes=1 << 20,
        description={"experiment": "e", "seed": 1},
    )  # fmt: skip
    return spec.model_copy(update=changes)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)
