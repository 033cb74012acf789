"""Runs of the local engine as the command line sees them: found by name, looked at, stopped."""

import getpass
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from components.contracts.node_names import parse_node_name
from components.report.logs import LogFile, tail
from components.storage.base import ObjectStore, open_store
from components.storage.location import StoreOptions
from infra.local import client
from infra.local.run_dir import RunDir, RunInfo

if TYPE_CHECKING:
    # Imported where they are used: `logs` must not pay for building the models that only the view needs.
    from components.contracts.records import RunRecord
    from components.contracts.run_view import EngineView, RunView
    from components.ledger.ledger import Ledger


@dataclass(frozen=True)
class LocalRun:
    """One run of this machine."""

    folder: RunDir

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def target_name(self) -> str:
        return "local"

    @property
    def engine_name(self) -> str:
        """What it has when nothing of it runs."""
        return "no engine"

    @property
    def argv(self) -> Sequence[str]:
        return self.info.argv

    @property
    def storage(self) -> str:
        return self.info.storage

    @cached_property
    def info(self) -> RunInfo:
        """What was submitted."""
        return self.folder.info()

    @cached_property
    def record(self) -> "RunRecord":
        from components.contracts.records import RunRecord

        info = self.info
        return RunRecord(
            run=self.name, experiment=info.experiment, model_version=info.model_version, target=info.target,
            workflow=self.name, created_at=info.created_at, description=info.description,
        )  # fmt: skip

    @cached_property
    def store(self) -> ObjectStore:
        options = StoreOptions.of_description(self.info.description.get("storage_options"))
        return open_store(self.info.storage, options, is_patient=False)

    @cached_property
    def _ledger(self) -> "Ledger":
        from components.ledger.ledger import Ledger

        return Ledger(self.store, self.info.experiment, self.info.model_version)

    @cached_property
    def _tasks(self) -> tuple[str, ...]:
        manifest = self.folder.manifest()
        templates = {template["name"]: template for template in manifest["spec"]["templates"]}
        entry = templates[manifest["spec"]["entrypoint"]]
        return tuple(task["name"] for task in entry.get("dag", {}).get("tasks", ()))

    def engine_alive(self) -> bool:
        return self.folder.engine_alive()

    def engine_view(self) -> "EngineView":
        """The engine's account, tasks in the order of the manifest, also those that have not begun."""
        from pipelines.cli.engine_view import engine_view

        is_alive = self.engine_alive()  # before the events: an engine that ends in between has written its last one
        state = self.folder.state()
        view = engine_view(state, is_alive=is_alive, tasks=self._tasks, asked=self.folder.stop_request())
        ends = {
            parse_node_name(node.name).stage: tail(self.folder.path / node.log_path)
            for node in state.nodes.values()
            if node.phase in ("Failed", "Error") and node.log_path and node.last and not node.last.last_words
        }
        if not ends:
            return view
        nodes = [node.model_copy(update={"last_lines": ends.get(node.task, ())}) for node in view.nodes]
        return view.model_copy(update={"nodes": tuple(nodes)})

    def view(self) -> "RunView":
        """Everything known about the run now."""
        from components.report.run_view import read_run_view

        return read_run_view(self.store, self.name, self.engine_view(), record=self.record, ledger=self._ledger)

    def brief(self) -> "RunView":
        """The engine's account alone: enough for a list, and reads no storage."""
        from components.report.fold import RunDocuments, fold_run_view

        documents = RunDocuments(
            run=self.name, record=self.record, storage=self.info.storage, engine=self.engine_view()
        )
        return fold_run_view(documents)

    def keep_up(self) -> None:
        """Nothing: the engine's events are a file of this machine."""

    def close(self) -> None:
        """Nothing is held."""

    def stop(self, *, force: bool) -> None:
        client.request_stop(self.folder, by=who(), force=force)

    def log_files(self) -> list[LogFile]:
        """Every attempt's output, oldest first."""
        return [
            LogFile(parse_node_name(node.name).stage, self.folder.path / attempt.log_path, attempt.started_at)
            for node in self.folder.state().nodes.values()
            for attempt in node.attempts
        ]


def local_runs() -> list[LocalRun]:
    """Every run of this machine, oldest first."""
    return [LocalRun(folder) for folder in client.list_runs(client.home())]


def who() -> str:
    """Who asks: `user@host`."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "somebody"
    return f"{user}@{socket.gethostname()}"
