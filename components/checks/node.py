"""The checks an agent makes inside the gang, just before its ranks start: here the real node is visible."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from components.checks.bounded import DEADLINE_SECONDS, Probe, ask_all
from components.checks.dataset_files import dataset_complete, dataset_question
from components.checks.disk import disk_question, disk_space
from components.checks.machine import machine_probes
from components.checks.ports import port_can_be_used, port_question
from components.checks.readings import Readings
from components.checks.storage import clock_question, storage_clock, storage_questions, storage_writable
from components.contracts.checks import CheckResult
from components.contracts.gang import GangSpec
from components.storage.base import ObjectStore

_STAGING_BYTES = 256 << 20


def node_checks(
    spec: GangSpec, *, node_rank: int, workdir: Path, readings: Mapping[str, Any], store: ObjectStore,
    deadline_seconds: float = DEADLINE_SECONDS,
) -> tuple[CheckResult, ...]:  # fmt: skip
    """Every check of this node, all answered within about `deadline_seconds`.

    `workdir` is the node's own folder (staged checkpoints, logs), not the program's. `readings` is what the guard
    measured (keys of `Readings`); what is missing from it is measured here.
    """
    program_dir = Path(spec.workdir) if spec.workdir else Path.cwd()
    # Agent 0 announces its port through a local file only when all agents share this machine.
    on_one_machine = bool(spec.coordinator_file)
    probes = machine_probes(
        num_ranks=spec.world_size if on_one_machine else spec.nproc_per_node, ranks_per_device_set=spec.nproc_per_node,
        memory_per_rank_bytes=spec.memory_per_rank_bytes, accelerator=spec.accelerator, command=spec.command,
        workdir=program_dir, env=spec.env, readings=cast(Readings, readings),
    )  # fmt: skip
    probes += _place_probes(spec, node_rank, workdir, store)
    return ask_all(probes, deadline_seconds=deadline_seconds)


def _place_probes(spec: GangSpec, node_rank: int, workdir: Path, store: ObjectStore) -> list[Probe]:
    disk = disk_question(
        path=workdir, need_bytes=_STAGING_BYTES, what="staged checkpoints and logs", scope="node",
        origin="a default: one checkpoint of a small model and its logs",
    )  # fmt: skip
    writable, _ = storage_questions(store.uri)
    clock, data = clock_question(store.uri), dataset_question(spec.data_version)
    probes = [
        Probe(disk, lambda: disk_space(disk, path=workdir, need_bytes=_STAGING_BYTES)),
        Probe(writable, lambda: storage_writable(writable, store, run=spec.run)),
        Probe(clock, lambda: storage_clock(clock, store, run=spec.run)),
        Probe(data, lambda: dataset_complete(data, store, data_version=spec.data_version)),
    ]
    if node_rank == 0:  # the ranks meet on agent 0's machine
        port = port_question(host=spec.coordinator_host, port=0)
        probes.append(Probe(port, lambda: port_can_be_used(port, host=spec.coordinator_host)))
    return probes
