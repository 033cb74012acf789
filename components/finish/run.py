"""The exit handler: end what is left of the gang, close the accounts of a launcher that could not, write the report.

It never turns a good run into a failed one: whatever it cannot do is logged, except processes that will not die.
"""

import os
import traceback
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from components.cluster.base import Cluster
from components.contracts.clock import now_text
from components.contracts.gang import LaunchState
from components.contracts.layout import launch_state_key
from components.contracts.lifecycle import RunState
from components.contracts.run_view import EngineView, RunView, StageState
from components.contracts.stop import StopRequest, read_stop
from components.errors import ArgosyError, ExitCode
from components.finish.engine_view import engine_view
from components.finish.gangs import end_gangs, stop_of
from components.finish.leftovers import end_gang, recorded_processes
from components.finish.spec import FinishSpec
from components.ledger.ledger import ClaimEntry, Ledger, is_gone, release
from components.report.report_files import write_report
from components.report.run_view import read_run_view
from components.runtime.stage import StageContext, stop_requested
from components.storage.base import ObjectNotFound, ObjectStore, open_store

_T = TypeVar("_T")


def finish(context: StageContext, spec: FinishSpec) -> Mapping[str, str]:
    """Clean up after the run. Raises EnvironmentUnfit only, when something of the gang cannot be ended."""
    status = context.inputs.get("status", "")
    context.log.info("the workflow ended", status=status, failures=context.inputs.get("failures", ""))
    store = open_store(context.storage)
    ledger = Ledger(store, spec.experiment, spec.model_version)
    cluster = _try(context, "find the cluster", _cluster)
    stop = _stop_request()
    if cluster is not None:
        stop = _try(context, "ask whether the run was stopped", lambda: stop_of(cluster, context.workflow))
        _try(context, "end what is left of the gang", lambda: end_gangs(
            cluster, run=context.run, workflow=context.workflow, log=context.log
        ))  # fmt: skip
    # Only now: a launcher that was stopping its gang has said its last word.
    launch = _try(context, "read the launcher's state", lambda: _read_launch_state(store, context.run))
    claim = _try(context, "read the ledger", lambda: ledger.state().claim)
    recorded = recorded_processes(launch, claim, run=context.run)
    num_killed = end_gang(context.storage, context.run, recorded, stop_seconds=spec.stop_seconds)
    if num_killed:
        context.log.warning(f"{num_killed} processes of the gang had outlived their launcher and were killed")
    if launch is not None:
        closed = close_account(launch, is_stopped=stop is not None or stop_requested(), now=now_text())
        if closed is not None:
            key = launch_state_key(context.run)
            _try(context, "close the launcher's account", lambda: store.replace(key, closed.to_bytes()))
    if claim is not None and claim.run == context.run:
        _try(context, "release the claim", lambda: _release(context, ledger, claim, status))
    return {"report": _report(context, store, status=status, stop=stop)}


def close_account(launch: LaunchState, *, is_stopped: bool, now: str) -> LaunchState | None:
    """The launcher's last word, spoken for one that was killed or was to be continued; None when it said it itself."""
    if launch.state.is_final:
        return None
    views = tuple(
        view if view.ended_at else view.model_copy(update={"ended_at": now, "reason": "LauncherLost"})
        for view in launch.generations
    )
    stopped = {"state": RunState.STOPPED, "reason": "StopRequested", "exit_code": int(ExitCode.STOPPED)}
    lost = {
        "state": RunState.FAILED, "reason": "LauncherLost", "message": "the launcher was killed",
        "fix": "see whether something killed it: memory, an administrator, the engine's end",
    }  # fmt: skip
    interrupted = {"state": RunState.FAILED}  # its own words say why it went; nobody continued it
    ending = stopped if is_stopped else lost if launch.exit_code is None else interrupted
    return launch.model_copy(update={**ending, "generations": views, "updated_at": now})


def _report(context: StageContext, store: ObjectStore, *, status: str, stop: StopRequest | None) -> str:
    """The report's uri; empty when it could not be written, which must not change how the run ended."""
    try:
        engine = engine_view(
            status, context.inputs.get("failures", ""), workflow=context.workflow, stop=stop,
            ended_at=now_text(),
        )  # fmt: skip
        return write_report(store, _view(store, context.run, engine), now=datetime.now(UTC))
    except Exception as error:
        context.log.error("cannot write the report", seen=str(error), traceback=traceback.format_exc())
        return ""


def _view(store: ObjectStore, run: str, engine: EngineView) -> RunView:
    """The run's view; the engine's word about a task counts only where its stage could not leave its own."""
    view = read_run_view(store, run, engine.model_copy(update={"nodes": ()}))
    silent = {stage.task for stage in view.stages if stage.state is StageState.RUNNING}
    known = {stage.task for stage in view.stages}
    nodes = tuple(node for node in engine.nodes if node.task in silent or node.task not in known)
    return read_run_view(store, run, engine.model_copy(update={"nodes": nodes})) if nodes else view


def _cluster() -> Cluster | None:
    """Where this stage is a pod."""
    if os.environ.get("ARGOSY_TARGET") != "kubernetes":
        return None
    from components.cluster.api import KubernetesCluster  # one machine needs none of it

    return KubernetesCluster.connect()


def _stop_request() -> StopRequest | None:
    try:
        return read_stop(Path(os.environ.get("ARGOSY_STOP_FILE", "")).read_bytes())
    except OSError:
        return None


def _release(context: StageContext, ledger: Ledger, claim: ClaimEntry, status: str) -> None:
    if is_gone(claim.owner):
        release(ledger, run=context.run, outcome=status or "Finished")
    else:
        context.log.warning(
            "the claim stays: nobody here can tell whether its launcher is gone", owner=str(claim.owner)
        )  # fmt: skip


def _read_launch_state(store: ObjectStore, run: str) -> LaunchState | None:
    key = launch_state_key(run)
    try:
        return LaunchState.from_bytes(store.read(key), where=store.uri_of(key))
    except ObjectNotFound:
        return None


def _try(context: StageContext, what: str, act: Callable[[], _T]) -> _T | None:
    """Do it, or log why not."""
    try:
        return act()
    except ArgosyError as error:
        context.log.warning(f"cannot {what}", seen=str(error))
        return None
