"""The launch stage: claim the experiment, run generations until the gang succeeded or may not go on, tell why."""

import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from components.contracts.gang import GangSpec
from components.contracts.layout import code_key, shard_manifest_key
from components.contracts.lifecycle import RunState
from components.contracts.units import format_duration
from components.errors import (
    RETRIED_BY_ARGO,
    ArgosyError,
    BadInput,
    ExitCode,
    Stopped,
    Transient,
    error_for,
)  # fmt: skip
from components.launch.account import Account, standing_after
from components.launch.conclusion import outputs_of
from components.launch.failure_policy import Budget, Decision, Finish, NewGeneration, without_gang
from components.launch.generation import Generation, Surroundings
from components.launch.history import History, begin_after, count_restarts, nodes_to_avoid, read_history
from components.launch.intent import Intent
from components.launch.process_backend import AGENT_COMMAND
from components.launch.spec import LaunchSpec
from components.launch.surroundings import Place, find_place
from components.launch.wakeup import Wakeup
from components.ledger.ledger import Ledger, Owner, claim, is_gone, release
from components.runtime.stage import StageContext
from components.storage.base import ObjectStore, open_store

PREDECESSOR_SECONDS = 10.0
"""How long a launcher waits for the one before it, which was told to go, to be gone."""


def launch(
    context: StageContext, spec: LaunchSpec, *, wakeup: Wakeup, environ: Mapping[str, str] = os.environ,
    agent_command: Sequence[str] = AGENT_COMMAND,
) -> Mapping[str, str]:  # fmt: skip
    """Run the gang to its end and return the output parameters. Every other ending is raised as an ArgosyError."""
    started_at = time.monotonic()
    place = find_place(context, spec, environ=environ, wakeup=wakeup, agent_command=agent_command)
    intent = Intent(
        lambda: wakeup.told_to_go, stop_file=environ.get("ARGOSY_STOP_FILE", ""), ask=place.ask,
        timeout_seconds=spec.timeout_seconds - (time.monotonic() - started_at),
    )  # fmt: skip
    store = open_store(context.storage)
    data_version, code = _data_version(context, store), _code(context, spec, store)
    ledger = Ledger(store, spec.experiment, spec.model_version)
    _await_predecessor(context, ledger, place.owner, wakeup, intent)
    claim_experiment(ledger, context.run, place)
    account = Account(store, run=context.run, backend=place.backend.name, log=context.log)
    around = Surroundings(
        store=store, backend=place.backend, wakeup=wakeup, account=account, log=context.log, intent=intent, write=_write
    )
    launcher = _Launcher(
        context, spec, around, ledger, data_version=data_version, code=code, program_folder=place.program_folder
    )  # fmt: skip
    outcome = Finish(ExitCode.BUG, "Bug", "the launcher ended by an error of its own")
    try:
        outputs = launcher.run()
        outcome = Finish(ExitCode.OK, "Succeeded", outputs["outcome"])
        return outputs
    except ArgosyError as error:
        outcome = Finish(error.exit_code, error.reason, error.seen, error.fix)
        raise
    finally:
        launcher.conclude(outcome)


class _Launcher:
    """One attempt of the stage, once it holds the claim."""

    def __init__(
        self, context: StageContext, spec: LaunchSpec, around: Surroundings, ledger: Ledger, *, data_version: str,
        code: str | None, program_folder: str,
    ) -> None:  # fmt: skip
        self._context, self._spec, self._around, self._ledger = context, spec, around, ledger
        self._data_version, self._code, self._program_folder = data_version, code, program_folder
        self._history = History()

    def run(self) -> Mapping[str, str]:
        log = self._context.log
        self._history = read_history(self._around.store, self._context.run, warn=log.warning)
        adopted = self._adopt()
        self._around.backend.remove_earlier(self._history.agents)
        if adopted is not None:
            log.info(f"generation {self._history.generations[-1].generation} runs: it is taken over")
            decision = self._follow(adopted)
        else:
            decision = begin_after(self._history, self._budget(self._history))
        while isinstance(decision, NewGeneration):
            self._require_time()
            cause = self._around.intent()
            if cause is not None:
                decision = without_gang(cause)
                continue
            log.info(
                f"generation {self._history.next_generation} starts: {decision.seen}", reason=decision.reason,
                charged=decision.charged,
            )  # fmt: skip
            spec = self._gang_spec(
                self._history.next_generation, decision.reason, charged=decision.charged,
                restarts_used=self._budget(self._history).restarts_used + decision.charged,
            )  # fmt: skip
            decision = self._follow(Generation(
                self._around, spec, self._history, budget_of=self._budget,
                excluded_nodes=nodes_to_avoid(self._history, decision.excluded_nodes),
            ))  # fmt: skip
        if decision.exit_code is not ExitCode.OK:
            raise _error(decision)
        return outputs_of(
            self._history, self._ledger.state(), run=self._context.run,
            has_checkpoints=self._spec.checkpoint is not None, restarts_used=self._budget(self._history).restarts_used,
        )  # fmt: skip

    def _adopt(self) -> Generation | None:
        """The last generation, when it trains on without the launcher that started it."""
        last = self._history.generations[-1] if self._history.generations else None
        if last is None or last.ended_at is not None or not self._around.backend.survives_launcher:
            return None
        spec = self._gang_spec(
            last.generation, last.begin_reason, charged=last.charged,
            restarts_used=self._budget(self._history).restarts_used,
        )  # fmt: skip
        if not self._around.backend.adopt(spec):
            return None
        return Generation(self._around, spec, self._history, budget_of=self._budget, adopted=last)

    def _follow(self, generation: Generation) -> Decision:
        try:
            return generation.run()
        finally:
            self._history = generation.history

    def conclude(self, outcome: Finish) -> None:
        """Leave the last word in the account; give the claim up unless another attempt follows."""
        standing = standing_after(outcome)
        if outcome.exit_code is ExitCode.INTERRUPTED and self._trains_on:
            standing = replace(standing, state=RunState.RUNNING)
        self._around.account.tell(standing, self._history, now=time.monotonic())
        if outcome.exit_code in RETRIED_BY_ARGO:
            return
        try:
            release(self._ledger, run=self._context.run, outcome=outcome.reason)
        except ArgosyError as error:
            # The next run sees that this process is gone and takes the claim over.
            self._context.log.warning("cannot release the claim", seen=str(error))

    @property
    def _trains_on(self) -> bool:
        """The gang needs no launcher, and nobody ended it."""
        generations = self._history.generations
        is_left = bool(generations) and generations[-1].ended_at is None
        return self._around.backend.survives_launcher and is_left

    def _budget(self, history: History) -> Budget:
        used = count_restarts(history, self._ledger.state(), self._context.run)
        return Budget(used, self._spec.max_restarts, self._around.backend.replaces_nodes)

    def _require_time(self) -> None:
        used, limit = self._history.run_seconds_used, self._spec.limits.run_seconds
        if used >= limit:
            raise Stopped(
                "RunDeadline", f"the ranks have run {format_duration(round(used))}, all that launch.limits.run allows",
                "raise launch.limits.run",
            )  # fmt: skip

    def _gang_spec(self, generation: int, reason: str, *, charged: bool, restarts_used: int) -> GangSpec:
        spec, context = self._spec, self._context
        meeting = self._around.backend.meeting_point(generation)
        return GangSpec(
            run=context.run, generation=generation, experiment=spec.experiment, model_version=spec.model_version,
            storage=context.storage, data_version=self._data_version, num_nodes=spec.num_nodes,
            nproc_per_node=spec.nproc_per_node, command=spec.command, start=spec.start,
            workdir=self._program_folder, code=self._code, env=spec.env,
            seed=spec.seed, limits=spec.limits, run_seconds_used=self._history.run_seconds_used,
            max_restarts=spec.max_restarts, checkpoint=spec.checkpoint, resume=spec.resume,
            memory_per_rank_bytes=spec.memory_per_rank_bytes, accelerator=spec.accelerator,
            begin_reason=reason, begin_charged=charged, restarts_used=restarts_used,
            coordinator_host=meeting.host, coordinator_port=meeting.port, coordinator_file=meeting.file,
        )  # fmt: skip


def claim_experiment(ledger: Ledger, run: str, place: Place) -> None:
    """Make `run` the one that runs, also in the place of one that is provably over. Raises RunActive."""
    held = ledger.state().claim

    def is_gone(owner: Owner) -> bool:
        # Somebody else may have taken it over meanwhile: of that one nothing is known.
        return held is not None and owner == held.owner and place.is_run_over(held.run, owner)

    claim(ledger, run=run, owner=place.owner, is_gone=is_gone)


def _error(finish: Finish) -> ArgosyError:
    return (error_for(finish.exit_code) or ArgosyError)(finish.reason, finish.seen, finish.fix)


def _await_predecessor(context: StageContext, ledger: Ledger, owner: Owner, wakeup: Wakeup, intent: Intent) -> None:
    """Two launchers of one run would each make generations and end the other's.

    Raises Transient when the one before still runs after a while.
    """
    held = ledger.state().claim
    if held is None or held.run != context.run or held.owner == owner:
        return
    earlier = held.owner
    if (earlier.host, earlier.machine_id, earlier.boot_id, earlier.pid_namespace) != (
        owner.host, owner.machine_id, owner.boot_id, owner.pid_namespace,
    ) or not owner.boot_id:  # fmt: skip
        return  # nobody here can tell; terms fence whoever is late
    deadline = time.monotonic() + PREDECESSOR_SECONDS
    while not is_gone(earlier):
        cause = intent()
        if cause is not None:
            raise _error(without_gang(cause))
        if time.monotonic() >= deadline:
            raise Transient(
                "LauncherActive", f"another launcher of run {context.run} is running ({earlier})",
                "wait until it is gone; the stage is tried again",
            )  # fmt: skip
        wakeup.wait(0.2)


def _data_version(context: StageContext, store: ObjectStore) -> str:
    data_version = context.inputs.get("data_version", "")
    if not data_version:
        raise BadInput("NoDataVersion", "the input data_version is missing", "pass --input data_version=<data version>")
    key = shard_manifest_key(data_version)
    if store.find(key) is None:
        raise BadInput(
            "DataMissing",
            f"{store.uri_of(key)} does not exist",
            "run the shard stage, or correct storage or data_version",
        )
    return data_version


def _code(context: StageContext, spec: LaunchSpec, store: ObjectStore) -> str | None:
    """SHA-256 of the code that travels with the run; None when none does."""
    if not spec.ships_code:
        return None
    digest = context.inputs.get("code", "")
    if not digest:
        raise BadInput(
            "NoCode", "the description ships code, but the Workflow does not say which: its parameter code is empty",
            "submit with `python pipelines/train.py submit`, which packs and uploads it",
        )  # fmt: skip
    key = code_key(digest)
    if store.find(key) is None:
        raise BadInput("CodeMissing", f"{store.uri_of(key)} does not exist", "submit the run again from its folder")
    return digest


def _write(lines: str) -> None:
    sys.stdout.write(lines)
    sys.stdout.flush()
