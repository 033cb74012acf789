"""Recognises who wrote a checkpoint, and reads its step, from names and small files alone.

Argosy        MANIFEST.json                         torchtitan    step-<n>/.metadata
Megatron      iter_<n>/ | mp_rank_*/                distributed   .metadata
HF Trainer    trainer_state.json (checkpoint-<n>/)  safetensors   *.safetensors, *.safetensors.index.json
Lightning     *.ckpt with a Lightning version       torch         *.pt *.pth *.ckpt *.bin
"""

import json
import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from components.contracts.lists import some_of
from components.errors import BadInput, Problem
from components.integrity.pickle_values import BadPickle, TooLarge
from components.integrity.place import Place
from components.integrity.safe_path import MANIFEST_NAME
from components.integrity.torch_archive import MAX_PICKLE_BYTES
from components.integrity.torch_pickle import read_torch_pickle, walk
from components.integrity.window import Window
from components.integrity.zip_directory import BadZip, ZipTooLarge, read_directory

_STEP = re.compile(
    r"(?:^|[-_=.])(?:global_?step|steps?|iter|iteration|checkpoint|ckpt)[-_=]?0*(\d{1,15})(?=$|[-_.=])", re.I
)
_RANK = re.compile(r"(?:^|/)__(\d+)_\d+\.distcp$")
_MEGATRON_RANK = re.compile(r"(?:^|/)mp_rank_[\d_]+/")
_MAX_JSON_BYTES = 4 << 20
_TORCH = (".pt", ".pth", ".bin")
_MAX_SUGGESTED = 10


@dataclass(frozen=True)
class Layout:
    """Who wrote a checkpoint, and what its names and small files say."""

    kind: str
    steps: dict[str, int] = field(default_factory=dict)
    """What is said about the step, by who says it."""
    world_size: int = 1
    metrics: dict[str, float] = field(default_factory=dict)


def recognise(place: Place) -> Layout:
    """The layout of what lies at `place`. Raises BadInput naming what was looked for."""
    names = [file.path for file in place.files]
    kind = _kind(place, names)
    if kind is None:
        raise _unknown(place, names)
    steps: dict[str, int] = {}
    metrics: dict[str, float] = {}
    named = _STEP.search(place.name)
    if named is not None:
        steps[f"the name {place.name}"] = int(named[1])
    if kind == "HF Trainer":
        _take_trainer_state(_json(place, "trainer_state.json"), steps, metrics)
    if kind in ("Lightning", "torch"):
        for path in [name for name in names if name.endswith((".ckpt", *_TORCH))][:1]:
            in_name = _STEP.search(posixpath.basename(path))
            if in_name is not None and len(names) == 1:
                steps[f"the name {path}"] = int(in_name[1])
            step = _step_in_pickle(place, path)
            if step is not None:
                steps[path] = step
    if kind == "Argosy":
        step = (_json(place, MANIFEST_NAME) or {}).get("step")
        if type(step) is int and step >= 0:
            steps = {MANIFEST_NAME: step}
    return Layout(kind, steps, _world_size(names), metrics)


def step_of(layout: Layout, *, given: int | None, where: str) -> int:
    """The step to record. Raises BadInput when nothing says it, or two things say different ones."""
    if given is not None:
        return given
    said = sorted(set(layout.steps.values()))
    if len(said) == 1:
        return said[0]
    if not said:
        raise BadInput("UnknownStep", f"neither the name nor the files of {where} say the step", "say it: --step <n>")
    told = ", ".join(f"{who} says {step}" for who, step in layout.steps.items())
    raise BadInput("StepsDisagree", f"{where}: {told}", "say which it is: --step <n>")


def _kind(place: Place, names: Sequence[str]) -> str | None:
    have = set(names)
    if place.has_manifest:
        return "Argosy"
    if (re.fullmatch(r"iter_\d+", place.name) and have) or any(_MEGATRON_RANK.search(name) for name in names):
        return "Megatron"
    if "trainer_state.json" in have:
        return "HF Trainer"
    if ".metadata" in have:
        if {"common.pt", "metadata.json"} <= have:
            return "Megatron"
        return "torchtitan" if re.fullmatch(r"step-\d+", place.name) else "distributed"
    top = [name for name in names if "/" not in name]
    if any(name.endswith((".safetensors", ".safetensors.index.json")) for name in top):
        return "safetensors"
    checkpoints = [name for name in top if name.endswith(".ckpt")]
    if checkpoints:
        return "Lightning" if _is_lightning(place, checkpoints[0]) else "torch"
    return "torch" if any(name.endswith(_TORCH) for name in top) else None


def _unknown(place: Place, names: Sequence[str]) -> BadInput:
    inner = sorted({name.split("/")[0] for name in names if "/" in name and _STEP.search(name.split("/")[0])})
    if inner:
        return BadInput(
            "SeveralCheckpoints", f"{place.uri} holds checkpoints in folders of their own", "name one of them",
            problems=[Problem(f"{place.uri}/{name}", "looks like one") for name in inner[:_MAX_SUGGESTED]],
        )  # fmt: skip
    return BadInput(
        "UnknownFormat", f"{place.uri} holds no checkpoint that is known here, only {some_of(names, most=5)}",
        "looked for .metadata (distributed, torchtitan), iter_<n> or mp_rank_* (Megatron), trainer_state.json"
        " (HF Trainer), *.safetensors, *.ckpt (Lightning), *.pt, *.pth and *.bin",
    )  # fmt: skip


def _take_trainer_state(state: Any, steps: dict[str, int], metrics: dict[str, float]) -> None:
    if not isinstance(state, dict):
        return
    step, history = state.get("global_step"), state.get("log_history")
    if type(step) is int and step >= 0:
        steps["trainer_state.json"] = step
    for line in reversed(history if isinstance(history, list) else []):
        loss = line.get("loss") if isinstance(line, dict) else None
        if isinstance(loss, int | float) and not isinstance(loss, bool):
            metrics["loss"] = float(loss)
            return


def _json(place: Place, path: str) -> Any:
    try:
        return json.loads(place.read(path, _MAX_JSON_BYTES))
    except (ValueError, RecursionError):
        return None


def _pickled(place: Place, path: str) -> Any:
    """The value in a torch file, as plain values; None when it cannot be read."""
    file = next(file for file in place.files if file.path == path)
    with Window(place.store, place.key(path), file.size_bytes) as window:
        try:
            entries = read_directory(window, 0, file.size_bytes)
            inner = [entry for entry in entries if entry.name.split("/", 1)[-1] == "data.pkl"]
            if len(inner) != 1 or inner[0].size_bytes > MAX_PICKLE_BYTES:
                return None
            return read_torch_pickle(window.read(inner[0].begin, inner[0].size_bytes)).value
        except (BadZip, ZipTooLarge, BadPickle, TooLarge):
            return None


def _is_lightning(place: Place, path: str) -> bool:
    return walk(_pickled(place, path), "pytorch-lightning_version") is not None


def _step_in_pickle(place: Place, path: str) -> int | None:
    value = _pickled(place, path)
    for name in ("global_step", "step", "iteration", "iter_num"):
        found = walk(value, name)
        if type(found) is int and 0 <= found < 1 << 53:
            return found
    return None


def _world_size(names: Sequence[str]) -> int:
    ranks = {match[1] for name in names if (match := _RANK.search(name))}
    folders = {match[0] for name in names if (match := _MEGATRON_RANK.search(name))}
    return max(len(ranks), len(folders), 1)
