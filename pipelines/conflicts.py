"""Rules about two fields of a run description: what contradicts itself, or would have no effect."""

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from components.contracts.canonical import canonical_json
from components.contracts.units import format_duration, write_size
from components.storage.location import S3Location, StoreOptions, parse_location
from pipelines.code_section import is_inside
from templates.deadlines import LAUNCH_MARGIN_SECONDS

if TYPE_CHECKING:
    from pipelines.config import TrainConfig

MAX_DESCRIPTION_BYTES = 15 * 1024
"""The description travels inside one stage's Spec, beside the command; together they must stay below 32 KiB."""


def least_launch_timeout(config: "TrainConfig") -> float:
    """Seconds that the limits of a gang and its restarts allow for."""
    limits, queue = config.launch.limits, config.queue_seconds
    each = queue + limits.start + limits.stop
    # One more wait in the queue for all that follow a preemption, which is no restart.
    return (config.launch.max_restarts + 1) * each + queue + limits.run + LAUNCH_MARGIN_SECONDS


_LAUNCH_FORMULA = (
    "(max_restarts + 1) * (start + stop) + run + 5m",
    "(max_restarts + 1) * (queue + start + stop) + queue + run + 5m",
)
"""Without and with a queue."""


def conflicts(config: "TrainConfig") -> Iterable[tuple[str, str, str]]:
    """Rules about two fields: where, what was seen, what to do."""
    least = least_launch_timeout(config)
    if config.launch.timeout is not None and config.launch.timeout < least:
        yield (
            "launch.timeout",
            f"is {format_duration(config.launch.timeout)}, but launch.limits and launch.max_restarts allow for "
            f"{format_duration(least)}: " + _LAUNCH_FORMULA[config.queue is not None],
            f"leave it out, set at least {format_duration(least)}, or lower launch.limits.run",
        )
    elif config.deadline is not None and config.deadline < config.critical_path:
        path = format_duration(math.ceil(config.critical_path))
        yield (
            "deadline",
            f"is {format_duration(config.deadline)}, but the stages' timeout and retries allow for {path}",
            f"set at least {path}, or lower launch.limits.run, launch.retries or the stages' timeout",
        )
    is_s3 = config.storage is not None and isinstance(parse_location(config.storage), S3Location)
    options = config.storage_options
    secrets = options and (options.credentials_secret or options.ca_secret or options.service_account)
    if (config.store_options != StoreOptions() or secrets) and not is_s3:
        yield "storage_options", "has no effect without an s3:// storage", "set storage, or leave it out"
    if config.checkpoint is None and config.resume.source not in ("latest", "fresh"):
        yield (
            "resume.from",
            f"is {config.resume.source}, but checkpoint is none, so there is nothing to resume",
            "set resume.from: latest, or checkpoint.every_steps",
        )
    every, keep = config.checkpoint and config.checkpoint.every_steps, config.retain.keep_every_steps
    if every and keep and keep % every:
        yield (
            "retain.keep_every_steps",
            f"is {keep}, but checkpoint.every_steps is {every}: most of those steps have no checkpoint",
            f"set a multiple of {every}",
        )
    if config.code is not None and not is_inside(config.launch.workdir or "."):
        yield "launch.workdir", f"is {config.launch.workdir}, outside code.folder", "write a folder relative to it"
    yield from _too_small(config)
    if config.launch.rdma and config.launch.rdma.resource in (
        (config.launch.resources and config.launch.resources.devices) or {}
    ):
        yield "launch.rdma.resource", "is also in launch.resources.devices", "name it once"
    if config.queue is None and config.launch.limits.queue is not None:
        yield "launch.limits.queue", "has no effect without queue", "set queue.name, or leave it out"
    if config.queue is not None and config.launch.backend == "process":
        yield (
            "queue", "has no effect with launch.backend: process, which runs the gang inside the launcher's own pod",
            "use backend auto, jobset or job, or leave it out",
        )  # fmt: skip
    if config.launch.accelerator is not None and not config.launch.accelerator.as_json():
        yield "launch.accelerator", "asks for nothing", "set model, min_memory_gib or min_driver, or leave it out"
    size = len(canonical_json(config.as_json()))
    if size > MAX_DESCRIPTION_BYTES:
        yield (
            "launch.command",
            f"makes the description {size} bytes long with launch.env; at most {MAX_DESCRIPTION_BYTES} are carried",
            "move long arguments into a file that the program reads",
        )


def _too_small(config: "TrainConfig") -> Iterable[tuple[str, str, str]]:
    """A pod whose own limit is below what its ranks are said to need fits on no node, however large."""
    needed = config.launch.nproc_per_node * config.preflight.memory_per_rank
    limit = config.launch.resources.memory if config.launch.resources else None
    if limit is not None and limit < needed:
        yield (
            "launch.resources.memory",
            f"is {write_size(limit)}, but preflight.memory_per_rank and launch.nproc_per_node ask for "
            f"{write_size(needed)} on each node",
            f"set at least {write_size(needed)}, or lower preflight.memory_per_rank to what a rank needs",
        )
