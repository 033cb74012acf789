"""Whose checkpoints a command is about, and which of them: options that all commands of the group share."""

import difflib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import click

from components.contracts.names import Identifier
from components.errors import BadInput
from components.ledger.ledger import CheckpointEntry, Ledger, LedgerState
from components.report.text import plain_line
from components.storage.base import ObjectStore, open_store
from components.storage.location import StoreOptions

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Place:
    """An experiment and model version in a storage."""

    store: ObjectStore
    experiment: str
    model_version: str
    ledger: Ledger
    options: StoreOptions
    retain: dict[str, Any] | None = field(default=None, compare=False)
    """Section `retain` of the description they were found by, as JSON; None when they were named."""

    @property
    def name(self) -> str:
        return f"{self.experiment}/{self.model_version}"


def place_options(function: Function) -> Function:
    """`-c`, `--experiment`, `--model-version`, `--storage` as the argument `place`."""

    def with_place(
        config: Path | None, experiment: str | None, model_version: str | None, storage: str | None, **others: Any
    ) -> Any:
        return function(place=find_place(config, experiment, model_version, storage), **others)

    with_place.__doc__, with_place.__name__ = function.__doc__, function.__name__
    with_place.__click_params__ = getattr(function, "__click_params__", [])  # type: ignore[attr-defined]
    decorated: Any = with_place
    for option in (
        click.option("--storage", metavar="URI", help="Root of the storage; by default the latest run's, else ours."),
        click.option("--model-version", metavar="NAME", help="By default v1, or what -c or the latest run says."),
        click.option("--experiment", metavar="NAME", help="By default what -c or the latest run says."),
        click.option("-c", "--config", type=click.Path(path_type=Path), metavar="FILE", help="The run description."),
    ):
        decorated = option(decorated)
    result: Function = decorated
    return result


def find_place(config: Path | None, experiment: str | None, model_version: str | None, storage: str | None) -> Place:
    """What the options mean: a description, names, or else the latest run."""
    from infra.local.client import home

    default_storage = f"file://{home()}/storage"
    options, retain = StoreOptions(), None
    if config is not None:
        from pipelines.config import load_config

        loaded = load_config(config)
        experiment = experiment or loaded.experiment
        model_version, storage = model_version or loaded.model_version, storage or loaded.storage
        options, retain = loaded.store_options, loaded.as_json().get("retain")
    elif experiment is None:
        from pipelines.cli.find import find_run
        from pipelines.cli.targets import PlaceOptions

        info = find_run(None, PlaceOptions()).info
        experiment, model_version = info.experiment, model_version or info.model_version
        storage = storage or info.storage
        options = StoreOptions.of_description(info.description.get("storage_options"))
        retain = info.description.get("retain")
    model_version = model_version or "v1"
    _require_names(experiment, model_version)
    store = open_store(storage or default_storage, options, is_patient=False)
    return Place(store, experiment, model_version, Ledger(store, experiment, model_version), options, retain)


def find_checkpoint(place: Place, state: LedgerState, name: str | None) -> CheckpointEntry:
    """The checkpoint of that id or step; without a name the newest verified one, else committed, else any."""
    entries = state.newest_first()
    if name is None:
        good = (*state.newest_first("verified"), *state.newest_first("committed"))
        newest = next(iter((*good, *entries)), None)
        if newest is None:
            seen = f"{place.name} has no checkpoints in {place.store.uri}"
            raise BadInput("NoCheckpoints", seen, "`submit` makes some")
        return newest
    # Of several checkpoints of one step the newest still usable one is meant.
    matching = [entry for entry in entries if name in (entry.checkpoint, str(entry.step), f"step-{entry.step}")]
    usable = [entry for entry in matching if entry.is_usable]
    if matching:
        return (usable or matching)[0]
    near = difflib.get_close_matches(name, [entry.checkpoint for entry in entries], n=3, cutoff=0.5)
    fix = f"did you mean {' or '.join(near)}?" if near else "`checkpoints list --all` lists them"
    seen = f"{place.name} has no checkpoint {plain_line(name)} in {place.store.uri}"
    raise BadInput("NoSuchCheckpoint", seen, fix)


def _require_names(experiment: str, model_version: str) -> None:
    from pydantic import TypeAdapter, ValidationError

    for option, name in (("--experiment", experiment), ("--model-version", model_version)):
        try:
            TypeAdapter(Identifier).validate_python(name)
        except ValidationError as error:
            raise BadInput(
                "Usage", f"{option} is {plain_line(name)!r}", "use lowercase letters, digits, - . _"
            ) from error
