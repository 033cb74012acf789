"""The retention policy that holds for an experiment's checkpoints, and what it keeps now."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from components.errors import ArgosyError
from components.ledger.ledger import LedgerState
from components.storage.location import parse_location
from pipelines.cli.checkpoints_place import Place


def retain_section(place: Place) -> dict[str, Any] | None:
    """Section `retain` of what `place` was found by, else of the newest run of that experiment and model version, as
    JSON; None when there is none.

    Runs of this machine count, and those that the ledger names, wherever they ran: the storage has their descriptions.
    """
    if place.retain is not None:
        return place.retain
    found = [item for item in (*_runs_of_ledger(place), *_runs_here(place)) if item[1]]
    return sorted(found, key=lambda item: item[0])[-1][1] if found else None  # the sort keeps the order of one moment


def kept_reasons(place: Place, state: LedgerState) -> dict[str, str]:
    """Why each one is kept, as `retain --dry-run` says it now; nothing where no policy is known."""
    from pydantic import ValidationError

    from components.retain.plan import plan_retention
    from pipelines.sections import RetainSection

    section = retain_section(place)
    if section is None:
        return {}
    try:
        policy = RetainSection.model_validate_json(json.dumps(section)).policy()
    except ValidationError:  # of another version of Argosy; `retain` says what is wrong with it
        return {}
    plan = plan_retention(state, policy, datetime.now(UTC))
    return {item.checkpoint: item.reason for item in plan.decisions if item.action == "keep"}


def _runs_here(place: Place) -> Iterator[tuple[str, Any]]:
    """When each run was made, and its section."""
    from infra.argo.submitted import submitted_runs
    from infra.local import client
    from pipelines.cli.local_run import local_runs

    where = parse_location(place.store.uri)
    infos = [*_readable(local_runs()), *submitted_runs(client.home())]
    for info in infos:
        if (info.experiment, info.model_version) != (place.experiment, place.model_version):
            continue
        try:
            is_there = parse_location(info.storage) == where
        except ArgosyError:
            continue
        if is_there:
            yield info.created_at, info.description.get("retain")


def _readable(runs: Any) -> Iterator[Any]:
    for run in runs:
        try:
            yield run.info
        except ArgosyError:  # `runs` names it
            continue


def _runs_of_ledger(place: Place) -> Iterator[tuple[str, Any]]:
    """The newest START whose run left a description; one that adopted a checkpoint by hand has none."""
    from components.contracts.layout import run_record_key
    from components.contracts.records import RunRecord

    for run in dict.fromkeys(begin.run for begin in reversed(place.ledger.state().begins)):
        key = run_record_key(run)
        try:
            record = RunRecord.from_bytes(place.store.read(key), where=place.store.uri_of(key))
        except ArgosyError:
            continue
        yield record.created_at, record.description.get("retain")
        return
