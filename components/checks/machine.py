"""The questions about the machine that ranks will run on; asked by preflight locally, by agents, and by `doctor`."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from components.checks.accelerators import accelerator_question, judge_accelerators
from components.checks.bounded import Probe
from components.checks.cores import cores_question, judge_cores
from components.checks.limits import judge_open_files, judge_shm, open_files_question, shm_question
from components.checks.memory import judge_memory, memory_question
from components.checks.packages import judge_torch, torch_question
from components.checks.program import judge_program, program_exists, program_question
from components.checks.readings import Machine, Readings, program_environment
from components.contracts.checks import CheckResult
from components.contracts.gang import AcceleratorRule


def machine_probes(
    *, num_ranks: int, ranks_per_device_set: int, memory_per_rank_bytes: int, accelerator: AcceleratorRule | None,
    command: Sequence[str], workdir: Path, env: Mapping[str, str], readings: Readings | None = None,
) -> list[Probe]:  # fmt: skip
    """Probes of memory, cores, program, torch, accelerators, shared memory and open files.

    `num_ranks` run on this machine altogether; `ranks_per_device_set` of them share one numbering of accelerators
    (a node's ranks: agents on one machine each start at device 0).
    """
    full_env = program_environment(env)
    if "CUDA_VISIBLE_DEVICES" in env:  # what the run description says is what the ranks will see
        readings = {**(readings or {}), "visible_devices": env["CUDA_VISIBLE_DEVICES"]}
    machine = Machine(readings or {}, command=command, workdir=workdir, env=full_env)
    wants_accelerator = accelerator is not None
    memory = memory_question(num_ranks=num_ranks, per_rank_bytes=memory_per_rank_bytes)
    cores, shm, files = cores_question(num_ranks=num_ranks), shm_question(num_ranks=num_ranks), open_files_question()
    program = program_question(command)
    torch = torch_question(command=command, wants_accelerator=wants_accelerator)
    devices = accelerator_question(accelerator, num_ranks=ranks_per_device_set)

    def look_for_program() -> CheckResult:
        sent = machine.program()
        if sent is None:
            return program_exists(program, command=command, workdir=workdir, env=full_env)
        return judge_program(
            program, path=sent["path"], obstacle=sent["obstacle"], script_missing=sent.get("script_missing", "")
        )

    return [
        Probe(program, look_for_program),
        Probe(torch, lambda: judge_torch(torch, versions=machine.packages(), wants_accelerator=wants_accelerator)),
        Probe(
            memory,
            lambda: judge_memory(
                memory, free=machine.memory(), num_ranks=num_ranks, per_rank_bytes=memory_per_rank_bytes
            ),
        ),
        Probe(cores, lambda: judge_cores(cores, cores=machine.cores(), num_ranks=num_ranks)),
        Probe(
            devices,
            lambda: judge_accelerators(
                devices, rule=accelerator, num_ranks=ranks_per_device_set, answer=machine.devices(),
                visible=machine.visible_devices(),
            ),
        ),
        Probe(shm, lambda: judge_shm(shm, free_bytes=machine.shm_bytes(), num_ranks=num_ranks)),
        Probe(files, lambda: judge_open_files(files, limit=machine.open_files())),
    ]  # fmt: skip
