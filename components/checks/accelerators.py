"""Which accelerators does this machine have, and are they what the run asks for? Asks nvidia-smi, with a deadline."""

import contextlib
import csv
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

from components.checks.question import Question
from components.contracts.checks import CheckResult
from components.contracts.gang import AcceleratorRule

QUERY = ("--query-gpu=index,name,memory.total,driver_version", "--format=csv,noheader,nounits")
"""Arguments of nvidia-smi whose output `judge_accelerators` reads."""

DEADLINE_SECONDS = 10.0


@dataclass(frozen=True)
class SmiAnswer:
    """What running nvidia-smi gave."""

    is_there: bool
    exit_code: int | None = None
    """None: no answer within the deadline."""
    output: str = ""


@dataclass(frozen=True)
class Accelerator:
    """One GPU as nvidia-smi reports it."""

    index: int
    model: str
    memory_mib: float
    driver: str


def ask_nvidia_smi(env: Mapping[str, str], *, deadline_seconds: float = DEADLINE_SECONDS) -> SmiAnswer:
    """Runs nvidia-smi from the PATH of `env`. A driver that hangs cannot hang us: the child is killed and left."""
    program = shutil.which("nvidia-smi", path=env.get("PATH"))
    if program is None:
        return SmiAnswer(is_there=False)
    child = subprocess.Popen(
        [program, *QUERY], env=dict(env), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        output, _ = child.communicate(timeout=deadline_seconds)
    except subprocess.TimeoutExpired:
        _abandon(child)
        return SmiAnswer(is_there=True)
    return SmiAnswer(is_there=True, exit_code=child.returncode, output=output.decode("utf-8", "replace"))


def accelerator_question(rule: AcceleratorRule | None, *, num_ranks: int, subject: str = "") -> Question:
    """Asks for what `rule` demands; without a rule anything is fine, but it is said what there is."""
    return Question(
        name="accelerators", scope="node", subject=subject, expected=_expected(rule, num_ranks),
        origin="launch.accelerator" if rule else "launch.accelerator is not set",
        remedy="use a machine with these accelerators, or correct launch.accelerator",
    )  # fmt: skip


def judge_accelerators(
    question: Question, *, rule: AcceleratorRule | None, num_ranks: int, answer: SmiAnswer, visible: str | None = None
) -> CheckResult:
    """The answer for what nvidia-smi said. `visible` is CUDA_VISIBLE_DEVICES, None when it is not set."""
    if not answer.is_there:
        return question.fail("no nvidia-smi here, so no accelerators") if rule else question.ok("none: a CPU run")
    if answer.exit_code is None:
        # Also without a rule: a driver that hangs its own tool hangs every rank that touches CUDA.
        return question.unknown("nvidia-smi did not answer in time", "the driver hangs: reboot the node or exclude it")
    if answer.exit_code != 0:
        said = " ".join(answer.output.split())[:300]
        measured = f"nvidia-smi ended with exit code {answer.exit_code}: {said}"
        return question.fail(measured, "repair the driver") if rule else question.warn(f"{measured}; a CPU run")
    try:
        found = [device for device in parse_accelerators(answer.output) if is_visible(device, visible)]
    except ValueError as error:
        return question.unknown(f"cannot read what nvidia-smi wrote: {error}")
    return _judge_found(question, rule, num_ranks, found, visible)


def parse_accelerators(output: str) -> list[Accelerator]:
    """Lines of `QUERY`. Raises ValueError for anything else."""
    found = []
    for row in csv.reader(output.splitlines(), skipinitialspace=True):
        if row:
            if len(row) != 4:
                raise ValueError(f"expected 4 columns: {', '.join(row)[:200]!r}")
            index, model, memory, driver = (cell.strip() for cell in row)
            found.append(Accelerator(int(index), model, float(memory), driver))
    return found


def _judge_found(
    question: Question, rule: AcceleratorRule | None, num_ranks: int, found: list[Accelerator], visible: str | None
) -> CheckResult:
    hidden = f" visible (CUDA_VISIBLE_DEVICES={visible})" if visible is not None else ""
    models = sorted({device.model for device in found})
    measured = f"{len(found)} × {', '.join(models)}, driver {found[0].driver}" if found else "none"
    if rule is None:
        if not found:
            return question.ok(f"none{hidden}: a CPU run")
        if len(found) < num_ranks:
            return question.warn(
                f"{measured}{hidden}: fewer than the {num_ranks} ranks here", "start fewer ranks, or train on CPU"
            )
        return question.ok(measured + hidden)
    faults = [f"{len(found)} for {num_ranks} ranks"] if len(found) < num_ranks else []
    faults += [fault for device in found for fault in _faults(device, rule)]
    if faults:
        return question.fail(f"{measured}{hidden}: {'; '.join(faults)}")
    return question.ok(measured + hidden)


def _faults(device: Accelerator, rule: AcceleratorRule) -> list[str]:
    faults = []
    if rule.model is not None and _plain(rule.model) != _plain(device.model):
        faults.append(f"GPU {device.index} is {device.model}")
    if rule.min_memory_gib is not None and device.memory_mib < rule.min_memory_gib * 1024:
        faults.append(f"GPU {device.index} has {device.memory_mib / 1024:.1f} GiB")
    if rule.min_driver is not None and _version(device.driver) < _version(rule.min_driver):
        faults.append(f"GPU {device.index} has driver {device.driver}")
    return faults


def _expected(rule: AcceleratorRule | None, num_ranks: int) -> str:
    if rule is None:
        return "none demanded"
    parts = [f"{num_ranks} × {rule.model or 'any model'}"]
    if rule.min_memory_gib is not None:
        parts.append(f"at least {rule.min_memory_gib:g} GiB each")
    if rule.min_driver is not None:
        parts.append(f"driver {rule.min_driver} or newer")
    return ", ".join(parts)


def is_visible(device: Accelerator, visible: str | None) -> bool:
    """Indices only: UUIDs and MIG names are not in the query, so with those every device counts."""
    if visible is None:
        return True
    wanted = [part.strip() for part in visible.split(",") if part.strip()]
    if not all(part.lstrip("-").isdigit() for part in wanted):
        return True
    return str(device.index) in wanted


def _plain(model: str) -> str:
    """`NVIDIA H100 80GB HBM3` as nvidia-smi says it, `NVIDIA-H100-80GB-HBM3` as Kubernetes labels do."""
    return model.strip().lower().replace(" ", "-")


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part.isdigit())


def _abandon(child: "subprocess.Popen[bytes]") -> None:
    child.kill()
    if child.stdout is not None:
        child.stdout.close()
    # Stuck in the kernel it cannot be reaped, and waiting for it longer would hang us too.
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(timeout=1.0)
