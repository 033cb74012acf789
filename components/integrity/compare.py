"""Compares what two checkpoints of one experiment hold: tensors that changed, came or went between them."""

from collections.abc import Mapping
from dataclasses import dataclass

from components.integrity.fault import Fault
from components.integrity.inspector import TensorType

_MAX_NAMED = 5
_MAX_FAULTS = 50


@dataclass(frozen=True)
class Previous:
    """The checkpoint to compare with."""

    checkpoint: str
    folder: str
    manifest_sha256: str
    is_same_run: bool
    """Within one run the program is the same, so a weight that changes its dtype or shape is damage."""


def compare_types(
    now: Mapping[str, TensorType], before: Mapping[str, TensorType], *, previous: Previous
) -> tuple[list[Fault], list[str]]:
    """(faults, notes).

    A fault is a floating-point tensor of another dtype or shape within one run. Integers may grow (counters, positions
    of a data loader), and another run may be another model: both are notes, as is a tensor that came or went.
    """
    faults: list[Fault] = []
    changed: list[str] = []
    for key in sorted(now.keys() & before.keys()):
        old, new = before[key], now[key]
        if (old.dtype, old.shape) == (new.dtype, new.shape):
            continue
        if previous.is_same_run and (_is_float(old) or _is_float(new)):
            file, separator, _ = key.partition(":")
            problem = f"differs in type from {previous.checkpoint} of the same run"
            faults.append(Fault(file if separator else ".metadata", problem, None, new.name, old.spelled, new.spelled))
        else:
            changed.append(f"{new.name} {old.spelled} -> {new.spelled}")
    notes = [
        f"{what} {previous.checkpoint}: {_listed(names)}"
        for what, names in (
            ("types changed since", changed),
            ("tensors that are new since", [now[key].name for key in sorted(now.keys() - before.keys())]),
            ("tensors that are gone since", [before[key].name for key in sorted(before.keys() - now.keys())]),
        )
        if names
    ]
    return faults[:_MAX_FAULTS], notes


def _is_float(tensor: TensorType) -> bool:
    return tensor.dtype[0] in "FBC" and tensor.dtype != "BOOL"


def _listed(names: list[str]) -> str:
    more = len(names) - _MAX_NAMED
    return ", ".join(names[:_MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
