"""Runs on a cluster as the command line sees them: the storage first, Argo where that does not tell enough."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING

from components.cluster.base import AlreadyThere
from components.contracts.clock import now_text, parse_utc
from components.contracts.cluster_names import RUN_LABEL
from components.contracts.names import next_workflow_name
from components.contracts.run_view import NOT_TAKEN_UP
from components.contracts.stop import StopRequest
from components.errors import ArgosyError, BadInput
from components.report.logs import LogFile
from components.storage.base import ObjectStore, open_store
from components.storage.location import StoreOptions
from infra.argo.submission import runs_selector, workflow_again, workflow_of
from infra.argo.submitted import Submitted
from infra.argo.view import engine_view, gone_view, is_over, is_taken_up
from pipelines.cli.local_run import who
from pipelines.cli.targets import Target

if TYPE_CHECKING:
    from components.contracts.records import RunRecord
    from components.contracts.run_view import EngineView, RunView
    from infra.argo.argo import Argo, Workflow
    from infra.argo.follower import Follower
    from pipelines.cli.pod_logs import PodLogs

_LOOK_SECONDS = 2.0
"""How often the storage is looked at while a run is followed; Argo tells by itself."""

_TAKING_UP_SECONDS = 15.0
_NOT_TAKEN_UP = (
    f"{NOT_TAKEN_UP}: no Argo controller has looked at the Workflow; see that one runs and that it watches this "
    "namespace and, if it has one, set its instance_id in the configuration file"
)


@dataclass
class ClusterRun:
    """One run of a cluster, by one or, after a resume, several Workflows."""

    submitted: Submitted
    target: Target
    known: "Workflow | None" = None
    """The newest Workflow, where it was found already."""
    follower: "Follower | None" = field(default=None, init=False)
    _shown: "tuple[float, str, RunView] | None" = field(default=None, init=False)
    _logs: "PodLogs | None" = field(default=None, init=False)

    @property
    def name(self) -> str:
        return self.submitted.run

    @property
    def info(self) -> Submitted:
        """What was submitted."""
        return self.submitted

    @property
    def target_name(self) -> str:
        return self.submitted.place.target

    @property
    def engine_name(self) -> str:
        """What it has when nothing of it runs."""
        return "no Workflow any more"

    @property
    def argv(self) -> Sequence[str]:
        return self.submitted.argv

    @property
    def storage(self) -> str:
        return self.submitted.storage

    @cached_property
    def argo(self) -> "Argo":
        return self.target.at(self.submitted.place).connect()

    @cached_property
    def store(self) -> ObjectStore:
        item = self.submitted
        options = StoreOptions.of_description(item.description.get("storage_options"))
        return open_store(item.storage, options.over(StoreOptions.of_environment(item.environment)), is_patient=False)

    @cached_property
    def record(self) -> "RunRecord":
        from components.contracts.records import RunRecord

        item = self.submitted
        return RunRecord(
            run=item.run, experiment=item.experiment, model_version=item.model_version, target=item.place.target,
            workflow=item.run, created_at=item.created_at, description=item.description,
        )  # fmt: skip

    def workflows(self) -> "list[Workflow]":
        """Every Workflow of the run that is still there, oldest first.

        One that was started by other means than `submit` is labelled when Argo's controller takes it up. Until then
        its name says whose it is.
        """
        found = self.argo.list(labels=runs_selector(self.name))
        if not found:
            own = self.argo.read(self.name)
            found = [own] if own is not None and RUN_LABEL not in (own["metadata"].get("labels") or {}) else []
        return sorted(found, key=lambda item: (item["metadata"].get("creationTimestamp", ""), item["metadata"]["name"]))

    def newest(self) -> "Workflow | None":
        """The Workflow that counts: followed, or looked up."""
        if self.follower is not None:
            return self.follower.latest()
        if self.known is not None:
            return self.known
        found = self.workflows()
        return found[-1] if found else None

    def follow(self, workflow: str) -> None:
        """From here on hear of that Workflow by a watch."""
        from infra.argo.follower import Follower

        self.follower = Follower(self.argo, workflow)

    def engine_alive(self) -> bool:
        """Whether Argo is not done with the run."""
        workflow = self.newest()
        return workflow is not None and not is_over(workflow)

    def engine_view(self) -> "EngineView":
        """Argo's account of the run."""
        workflow = self.newest()
        if workflow is None:
            return gone_view(None)
        view = engine_view(workflow)
        created = workflow["metadata"].get("creationTimestamp")
        age = (datetime.now(UTC) - parse_utc(created)).total_seconds() if created else 0.0
        if not is_taken_up(workflow) and age > _TAKING_UP_SECONDS:
            return view.model_copy(update={"message": _NOT_TAKEN_UP})
        return view

    def brief(self) -> "RunView":
        """Argo's account alone."""
        from components.report.fold import RunDocuments, fold_run_view

        documents = RunDocuments(
            run=self.name, record=self.record, storage=self.storage, engine=self.engine_view()
        )  # fmt: skip
        return self._placed(fold_run_view(documents))

    def view(self) -> "RunView":
        """Everything known about the run now."""
        if self.follower is None:
            from pipelines.cli.stored_view import stored_view

            try:
                stored = stored_view(self.store, self.name, self.record)
            except ArgosyError as error:
                return self._placed(self._account_of_argo(error))
            return self._placed(stored if stored is not None else self._whole_view())
        workflow = self.follower.latest()
        version = str(workflow["metadata"].get("resourceVersion", "")) if workflow else ""
        now = time.monotonic()
        if self._shown is None or self._shown[1] != version or now - self._shown[0] > _LOOK_SECONDS:
            self._shown = now, version, self._placed(self._whole_view())
        return self._shown[2]

    def _whole_view(self) -> "RunView":
        """Storage and Argo together; where one does not answer, the other alone, and what was wrong."""
        from components.contracts.layout import run_record_key
        from components.report.run_view import read_run_view

        if self.follower is not None:
            try:
                # One question first: a storage out of reach from here is given up on once, not for every document.
                self.store.find(run_record_key(self.name))
            except ArgosyError as error:
                return self._account_of_argo(error)
            return read_run_view(self.store, self.name, self.engine_view(), record=self.record)
        try:
            engine = self.engine_view()
        except ArgosyError as error:
            view = read_run_view(self.store, self.name, record=self.record)
            if not view.stages:
                raise  # the storage knows nothing either
            return view.model_copy(update={"unreadable": (*view.unreadable, f"{self.target_name}: {error}")})
        if engine.was_lost:  # by its time to live, or by somebody, after its end or before
            from pipelines.cli.stored_view import stored_view

            ended = stored_view(self.store, self.name, self.record, is_gone=True)
            if ended is not None:
                return ended
        return read_run_view(self.store, self.name, engine, record=self.record)

    def _account_of_argo(self, storage_error: ArgosyError) -> "RunView":
        from components.report.fold import RunDocuments, fold_run_view

        why = f"{self.storage} cannot be read from here, so this is Argo's account alone: {storage_error}"
        documents = RunDocuments(
            run=self.name, record=self.record, storage=self.storage, engine=self.engine_view(), unreadable=(why,)
        )
        return fold_run_view(documents)

    def stop(self, *, force: bool) -> None:
        workflow = self.newest()
        if workflow is None or is_over(workflow):
            return
        request = StopRequest(by=who(), at=now_text(), force=force)
        name = str(workflow["metadata"]["name"])
        self.argo.end(name, strategy="Terminate" if force else "Stop", request=request)

    def resume(self) -> None:
        """Submit the run again as another Workflow, whose finished stages return what they published, and follow it.

        Made of the newest Workflow, or of the description when none is left. Raises BadInput without either, and when
        somebody else was quicker.
        """
        found = self.workflows()
        if found and not is_over(found[-1]):
            raise BadInput("StillRunning", f"run {self.name} is running", f"see `status {self.name}`")
        last = str(found[-1]["metadata"]["uid"]) if found else ""
        name = next_workflow_name(self.name, after=last, minute=now_text()[: len("2026-11-29T18:00")])
        if found:
            workflow = workflow_again(found[-1], name=name)
        elif self.submitted.description:
            from pipelines.config import TrainConfig
            from pipelines.workflow import compile_manifest

            config = TrainConfig.model_validate_json(json.dumps(self.submitted.description))
            workflow = workflow_of(
                compile_manifest(config, storage=self.storage), name=name, run=self.name,
                parameters={"storage": self.storage, "run": self.name, "code": self.submitted.code},
                instance_id=self.target.instance_id,
            )  # fmt: skip
        else:
            fix = "submit it anew; checkpoints of the same experiment and model version are found"
            raise BadInput("WorkflowGone", f"no Workflow of run {self.name} is left in {self.argo.place}", fix)
        try:
            self.argo.create(workflow)
        except AlreadyThere as error:
            seen = f"somebody else resumed run {self.name} just now, as Workflow {name}"
            raise BadInput("StillRunning", seen, f"see `status {self.name}`") from error
        self.follow(name)

    def keep_up(self) -> None:
        """From here on hear of the newest Workflow by a watch, instead of asking for it at every look."""
        found = self.workflows()
        if found and self.follower is None:
            self.follow(str(found[-1]["metadata"]["name"]))

    def close(self) -> None:
        """End what follows the run; the run itself goes on."""
        if self.follower is not None:
            self.follower.close()
        if self._logs is not None:
            self._logs.close()

    def log_files(self) -> list[LogFile]:
        """Output of the stages' pods that are still there, fetched when asked for."""
        from pipelines.cli.pod_logs import PodLogs

        if self._logs is None:
            self._logs = PodLogs(self.argo, self.workflows, follow=self.follower is not None)
        return self._logs.files(final=self.follower is None or not self.engine_alive())

    def _placed(self, view: "RunView") -> "RunView":
        return view if view.target else view.model_copy(update={"target": self.target_name})
