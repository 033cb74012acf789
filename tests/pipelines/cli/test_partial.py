"""Every command that looks at a run answers, whatever of its documents is missing or says next to nothing."""

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import pytest

from components.contracts.checks import CheckStatus
from components.contracts.clock import parse_utc
from components.contracts.document import Document
from components.contracts.lifecycle import RunState
from components.diagnosis.diagnose import diagnose
from components.report.fold import RunDocuments, fold_run_view
from pipelines.cli.changes import changes
from pipelines.cli.present import last_words, status_lines, view_json, why_lines
from tests.runs import (
    RUN,
    a_check,
    a_check_report,
    a_checkpoint,
    a_failed_attempt,
    a_failure,
    a_gang,
    a_launch,
    a_node,
    a_record,
    a_stage_record,
    a_stop,
    an_attempt,
    an_engine,
    at,
)

NOW = parse_utc(at(70))
CHECKS = (a_check_report(a_check("memory", CheckStatus.FAIL)),)


def training() -> RunDocuments:
    """A run that restarted once and trains."""
    attempts = (a_failed_attempt(a_failure()), an_attempt(attempt=1, charged=True))
    return RunDocuments(
        run=RUN, record=a_record(), storage="file:///s",
        engine=an_engine(a_node("shard-merge"), a_node("launch", "Running")),
        stages=(a_stage_record("shard-merge"), a_stage_record("launch", None)), checks=CHECKS, launch=a_launch(),
        gangs=(a_gang(attempts=attempts, restarts_used=1),), checkpoints=(a_checkpoint(),),
    )  # fmt: skip


def failed() -> RunDocuments:
    """The same, without a restart left."""
    gang = a_gang(RunState.FAILED, attempts=(a_failed_attempt(a_failure()),), exit_code=90)
    return replace(
        training(), gangs=(gang,), stages=(a_stage_record("shard-merge"), a_stage_record("launch", 90)),
        engine=an_engine(a_node("shard-merge"), a_node("launch", "Failed", exit_code=90), phase="Failed"),
    )  # fmt: skip


def stopped() -> RunDocuments:
    """The same, stopped by somebody."""
    return replace(
        failed(), stages=(a_stage_record("launch", 83),),
        engine=an_engine(a_node("launch", "Failed", exit_code=83), phase="Failed", stop=a_stop()),
    )  # fmt: skip


def with_less(documents: RunDocuments) -> Iterator[tuple[str, RunDocuments]]:
    """`documents` without one of them, or without one value that one of them may do without."""
    blank = RunDocuments(run=documents.run)
    for field in fields(documents):
        value = getattr(documents, field.name)
        yield field.name, replace(documents, **{field.name: getattr(blank, field.name)})
        if isinstance(value, Document):
            for path, poorer in _poorer(value):
                yield f"{field.name}.{path}", replace(documents, **{field.name: poorer})
        elif isinstance(value, tuple):
            for index, item in enumerate(value):
                for path, poorer in _poorer(item):
                    items = (*value[:index], poorer, *value[index + 1 :])
                    yield f"{field.name}[{index}].{path}", replace(documents, **{field.name: items})


def _poorer(document: Any) -> Iterator[tuple[str, Any]]:
    for name, info in type(document).model_fields.items():
        value = getattr(document, name)
        if not info.is_required() and value != info.get_default():
            yield name, document.model_copy(update={name: info.get_default()})
        elif isinstance(value, tuple) and value and isinstance(value[-1], Document):
            for path, poorer in _poorer(value[-1]):
                yield f"{name}.{path}", document.model_copy(update={name: (*value[:-1], poorer)})
    if hasattr(document, "nodes"):
        for index, node in enumerate(document.nodes):
            for path, poorer in _poorer(node):
                nodes = (*document.nodes[:index], poorer, *document.nodes[index + 1 :])
                yield f"nodes[{index}].{path}", document.model_copy(update={"nodes": nodes})


@pytest.mark.parametrize("whole", [training, failed, stopped])
def test_whatever_is_missing_a_run_is_told_about(whole: Any) -> None:
    cases = list(with_less(whole()))
    assert len(cases) > 30
    before = None
    for _, documents in cases:
        view = fold_run_view(documents)
        diagnosis = diagnose(view, NOW)
        assert diagnosis.cause
        assert status_lines(view, diagnosis, NOW)[0].startswith(RUN)
        assert why_lines(diagnosis)[0]
        assert last_words(view, diagnosis, "again")
        assert view_json(view, diagnosis)["run"] == RUN
        changes(before, view)
        before = view
