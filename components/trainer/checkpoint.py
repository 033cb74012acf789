"""Writes and reads the trainer's checkpoints: safetensors for tensors, JSON for everything else.

step-<n>/model.safetensors      the parameters
step-<n>/optimizer.safetensors  AdamW's two moments of each parameter
step-<n>/state.json             step, data position, random states, shape of the model, settings
step-<n>/READY                  empty, last: from here on the checkpoint may be taken
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from components.trainer.endings import Unusable
from components.trainer.model import ModelShape

FORMAT = "argosy-trainer/1"
_MOMENTS = ("exp_avg", "exp_avg_sq")


@dataclass(frozen=True)
class TrainingState:
    """Everything besides tensors that a resumed run needs to go on as if nothing had happened."""

    step: int
    cursor: Mapping[str, Any]
    """Place in the data, as the reader gives it."""
    shape: ModelShape
    settings: Mapping[str, Any]
    """The arguments of the run that wrote it; for people, and to say what changed."""
    random_states: tuple[str, ...]
    """One a rank, hexadecimal."""


def write_checkpoint(folder: Path, state: TrainingState, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Write `folder` and mark it READY; does nothing when it is READY already."""
    if (folder / "READY").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    parameters = dict(model.named_parameters())
    moments = {
        f"{moment}.{name}": optimizer.state[parameter][moment].detach().cpu().contiguous()
        for name, parameter in parameters.items()
        for moment in _MOMENTS
    }
    document = {
        "format": FORMAT, "step": state.step, "cursor": dict(state.cursor), "model": state.shape.as_json(),
        "settings": dict(state.settings), "random_states": list(state.random_states),
    }  # fmt: skip
    _write(folder / "model.safetensors", save({name: value.detach().cpu() for name, value in parameters.items()}))
    _write(folder / "optimizer.safetensors", save(moments))
    _write(folder / "state.json", json.dumps(document, indent=1).encode())
    _write(folder / "READY", b"")
    _sync_folder(folder)
    _sync_folder(folder.parent)


def read_state(folder: Path, shape: ModelShape) -> TrainingState:
    """The state in `folder`. Raises Unusable when it is damaged, of another format, or of another shape."""
    path = folder / "state.json"
    try:
        document = json.loads(path.read_bytes())
        if document["format"] != FORMAT:
            raise Unusable(f"{path} is of format {document['format']!r}, not {FORMAT!r}")
        saved = ModelShape(**document["model"])
        state = TrainingState(
            step=int(document["step"]), cursor=dict(document["cursor"]), shape=saved,
            settings=document["settings"], random_states=tuple(document["random_states"]),
        )  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Unusable(f"{path} cannot be read as a trainer's state: {type(error).__name__}: {error}") from error
    if saved != shape:
        wanted = shape.as_json()
        differing = [
            f"{name} {value}, now {wanted[name]}" for name, value in saved.as_json().items() if value != wanted[name]
        ]
        raise Unusable(f"the checkpoint {folder} is of another model: {', '.join(differing)}; use the same arguments")
    return state


def load_tensors(folder: Path, state: TrainingState, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Put the tensors in `folder` into `model` and `optimizer`. Raises Unusable when they do not fit."""
    parameters = dict(model.named_parameters())
    tensors = _read(folder / "model.safetensors", {name: value.shape for name, value in parameters.items()})
    moments = _read(
        folder / "optimizer.safetensors",
        {f"{moment}.{name}": value.shape for name, value in parameters.items() for moment in _MOMENTS},
    )
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(tensors[name])
            # Fresh tensors, not views of the file's bytes: those may be unaligned, and then sums run another way.
            kept = {moment: torch.empty_like(parameter).copy_(moments[f"{moment}.{name}"]) for moment in _MOMENTS}
            optimizer.state[parameter] = {"step": torch.tensor(float(state.step)), **kept}


def _read(path: Path, shapes: Mapping[str, torch.Size]) -> dict[str, Tensor]:
    try:
        tensors = load(path.read_bytes())
    except (OSError, SafetensorError) as error:
        raise Unusable(f"{path} cannot be read: {error}") from error
    faults = [f"{name} is missing" for name in shapes if name not in tensors]
    faults += [f"{name} is not expected" for name in tensors if name not in shapes]
    faults += [
        f"{name} has shape {tuple(tensor.shape)} instead of {tuple(shapes[name])}"
        for name, tensor in tensors.items()
        if name in shapes and tensor.shape != shapes[name]
    ]
    if faults:
        raise Unusable(f"{path} does not fit the model: {'; '.join(faults[:5])}")
    return tensors


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
