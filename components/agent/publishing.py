"""Work on the store that takes its time, for worker threads: publish a step, commit it, prepare a START."""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from components.agent.addresses import free_port
from components.agent.events import CommitFailed, CommitStep, Committed, Prepare, Prepared, PrepareFailed
from components.agent.messages import Trouble
from components.agent.run_context import RunContext
from components.contracts.gang import GangSpec
from components.contracts.layout import checkpoint_folder
from components.errors import ArgosyError, Transient
from components.ledger.ledger import Fenced, SourceLost, begin, commit, restarts_used
from components.ledger.publish import publish_files, receipts_present, write_manifest
from components.ledger.select import Source, select_source, still_chosen

_RETRY_PAUSES_SECONDS = (0.5, 1.0, 2.0, 4.0)
_MAX_CHOICES = 5
"""How often the source is chosen anew because a better one came. An older gang that commits faster than the bytes of
its last checkpoint can be proven must not keep this one from fencing it: then the last choice stands."""

Result = TypeVar("Result")


def publish_step(context: RunContext, term: int, step: int, source: Path) -> Trouble | None:
    """Copy this node's files of one step and leave a receipt. None when that worked."""
    folder = step_folder(context.spec, term=term, step=step)
    try:
        receipt = _patiently(
            lambda: publish_files(
                context.store, folder=folder, source=source, node_rank=context.node_rank, term=term, step=step
            )
        )
    except (ArgosyError, OSError) as error:
        return Trouble.of(error)
    if context.node_rank == 0:
        context.left_receipts[term, step] = receipt
    return None


def commit_step(context: RunContext, action: CommitStep) -> Committed | CommitFailed:
    """Write the manifest over all receipts and append COMMIT."""
    spec, term, step, ledger = context.spec, action.term, action.step, context.ledger
    assert spec.checkpoint is not None
    folder, own = step_folder(spec, term=term, step=step), context.left_receipts.pop((term, step), None)
    others = [rank for rank in spec.checkpoint.writing_nodes(spec.num_nodes) if rank != 0 or own is None]

    def work() -> str:
        receipts = receipts_present(context.store, folder=folder, node_ranks=others)
        manifest, sha256 = write_manifest(
            context.store, receipts=receipts if own is None else (own, *receipts), experiment=spec.experiment,
            model_version=spec.model_version, data_version=spec.data_version, run=spec.run,
            term=term, step=step, world_size=spec.world_size, parent=action.parent, metrics=action.metrics,
            lineage=context.lineage,
        )  # fmt: skip
        commit(ledger, manifest=manifest, manifest_sha256=sha256)
        return manifest.checkpoint

    try:
        return Committed(term, step, _patiently(work))
    except (ArgosyError, OSError) as error:
        return CommitFailed(term, step, Trouble.of(error), is_fenced=isinstance(error, Fenced))


def catch_up(context: RunContext) -> None:
    """Read what verify and retain have added to the ledger, so that the next commit finds its position at once."""
    with suppress(ArgosyError, OSError):  # then whoever needs the ledger next says so
        context.ledger.state()


def prepare_start(context: RunContext, action: Prepare, *, restarts_before: int) -> Prepared | PrepareFailed:
    """Choose the resume source and begin a term; with `checkpoint: none` there is only a port to choose."""
    spec = context.spec
    try:
        if spec.checkpoint is None:
            charged_here = action.charged and action.attempt > 0  # the generation's own charge is counted already
            return Prepared(action.attempt, 0, None, 0, None, free_port(), restarts_before + charged_here)
        source, term, used = _begin(context, action)
        context.log.info(f"attempt {action.attempt} begins term {term}: {source.reason}", term=term, step=source.step)
        return Prepared(action.attempt, term, source.checkpoint, source.step, source.folder, free_port(), used)
    except (ArgosyError, OSError) as error:
        return PrepareFailed(Trouble.of(error))


def _begin(context: RunContext, action: Prepare) -> tuple[Source, int, int]:
    spec, ledger = context.spec, context.ledger
    choices_left = _MAX_CHOICES
    while True:
        source = _patiently(lambda: select_source(
            ledger, context.store, resume=spec.resume, data_version=spec.data_version, run=spec.run
        ))  # fmt: skip
        choices_left -= 1
        is_still_chosen = still_chosen(
            source, resume=spec.resume, data_version=spec.data_version, run=spec.run
        ) if choices_left else None  # fmt: skip
        try:
            # Not patiently: a BEGIN whose answer got lost would be charged twice.
            term = begin(
                ledger, run=spec.run, generation=spec.generation, attempt=action.attempt, reason=action.reason,
                charged=action.charged, source=source.checkpoint, is_still_chosen=is_still_chosen,
            )  # fmt: skip
        except SourceLost as error:
            if not choices_left:
                raise
            context.log.info("the resume source is chosen again", seen=str(error))
            continue
        return source, term, _patiently(lambda: restarts_used(ledger.state(), spec.run))


def step_folder(spec: GangSpec, *, term: int, step: int) -> str:
    """Key of a step's checkpoint folder."""
    return checkpoint_folder(spec.experiment, spec.model_version, spec.data_version, step=step, term=term)


def _patiently(work: Callable[[], Result]) -> Result:
    """A store that does not answer is asked again a few times; everything here may be repeated."""
    for pause in _RETRY_PAUSES_SECONDS:
        try:
            return work()
        except Transient:
            time.sleep(pause)
    return work()
