"""Checks what can be checked before there is a gang: the storage, the resume point, and locally this machine.

What only the gang's own nodes can tell (their ports, devices, limits) is checked by the agents before the ranks start.
"""

import os
from collections.abc import Mapping

from components.checks.bounded import ask_all
from components.contracts.checks import CheckReport, CheckResult, CheckStatus
from components.contracts.layout import preflight_report_key, run_record_key
from components.contracts.records import RunRecord
from components.errors import ArgosyError, BadInput, ExitCode, Problem, error_for
from components.preflight.questions import all_probes
from components.preflight.spec import PreflightSpec
from components.runtime.stage import StageContext
from components.storage.base import AlreadyExists, ObjectStore, open_store

DEADLINE_SECONDS = 30.0
"""An answer that does not come ends the run, and nobody tries again: a store that restarts meanwhile is waited for."""


def preflight(context: StageContext, spec: PreflightSpec) -> Mapping[str, str]:
    """File the run's record, ask every question, write the report. Raises the error of the worst failure."""
    store = open_store(context.storage)
    is_local = spec.backend == "process" or os.environ.get("ARGOSY_TARGET") == "local"
    _file_record(context, spec, store)
    results = ask_all(all_probes(context, spec, store, is_local=is_local), deadline_seconds=DEADLINE_SECONDS)
    report = CheckReport(subject="preflight", results=results)
    for result in results:
        _log(context, result)
    _write_report(context, report, store)
    error = failure_of(report)
    if error is not None:
        raise error
    return {"verdict": verdict_of(report)}


def verdict_of(report: CheckReport) -> str:
    """`ok`, or `warn` when something soft is not as expected; a report that blocks has no verdict but an error."""
    return "ok" if all(result.status is CheckStatus.OK for result in report.results) else "warn"


def failure_of(report: CheckReport) -> ArgosyError | None:
    """What a report that blocks the run is raised as: the first line has the weightiest failure's own reason and words,
    then every failure is told. None when it does not block.
    """
    code = report.exit_code()
    if code == ExitCode.OK:
        return None
    cls = error_for(code)
    assert cls is not None
    blocking = report.by_weight
    only_unknown = all(result.status is CheckStatus.UNKNOWN for result in blocking)
    reason, what = ("PreflightUnknown", "could not be measured") if only_unknown else ("PreflightFailed", "failed")
    names = ", ".join(result.name for result in blocking)
    seen = f"{_words(blocking[0])}; {len(blocking)} check{'s' if len(blocking) > 1 else ''} {what}: {names}"
    if cls is BadInput:
        return BadInput(reason, seen, problems=[_problem(result) for result in blocking])
    return cls(reason, seen + "".join(f"\n  {_problem(result)}" for result in blocking))


def _words(result: CheckResult) -> str:
    """On one line. What could not be measured says its reason itself."""
    if result.status is CheckStatus.UNKNOWN and result.reason:
        text = result.measured.removeprefix("could not be measured: ")
    elif result.reason:
        text = f"{result.reason}: {result.measured}"
    else:
        text = f"{result.name}: {result.measured} (expected {result.expected})"
    return " ".join(text.split())


def _problem(result: CheckResult) -> Problem:
    where = f"{result.name} {result.subject}".strip()
    return Problem(where, f"{result.measured} (expected {result.expected}; {result.origin})", result.remedy)


def _file_record(context: StageContext, spec: PreflightSpec, store: ObjectStore) -> None:
    record = RunRecord(
        run=context.run, experiment=spec.experiment, model_version=spec.model_version,
        target=os.environ.get("ARGOSY_TARGET", ""), workflow=context.workflow, created_at=context.started_at,
        description=spec.description,
    )  # fmt: skip
    try:
        store.create(run_record_key(context.run), record.to_bytes())
    except AlreadyExists:
        return  # an earlier attempt filed it
    except ArgosyError as error:
        # The storage checks say what is wrong, together with everything else that is.
        context.log.warning("could not file the run's record", seen=str(error))


def _write_report(context: StageContext, report: CheckReport, store: ObjectStore) -> None:
    try:
        store.replace(preflight_report_key(context.run), report.to_bytes())
    except ArgosyError as error:
        if not report.blocking:
            raise
        context.log.warning("could not write the report", seen=str(error))


def _log(context: StageContext, result: CheckResult) -> None:
    message = f"{result.name}: {result.status}: {result.measured}"
    fields = {"subject": result.subject, "expected": result.expected, "origin": result.origin}
    if result.status is CheckStatus.OK:
        context.log.info(message, **fields)
    elif result.blocks:
        context.log.error(message, remedy=result.remedy, **fields)
    else:
        context.log.warning(message, remedy=result.remedy, **fields)
