"""Built-in run descriptions: a function each, complete and valid; variants are edits in Python or `--set`."""

import inspect
from collections.abc import Callable

from components.contracts.retention import KeepBest
from components.errors import BadInput
from pipelines.config import TrainConfig
from pipelines.sections import (
    CheckpointSection,
    LaunchSection,
    Limits,
    PreflightSection,
    RetainSection,
    ShardSection,
)

DEFAULT_RECIPE = "tiny"

MINUTE, HOUR = 60.0, 3600.0


def tiny() -> TrainConfig:
    """The default: a 4-layer transformer on the standard library's sources, 2 nodes of 1 rank, about a minute."""
    return TrainConfig(
        experiment="tiny",
        shard=ShardSection(corpus="python:stdlib", sequence_length=128, over_long="split", target_shard_size=8 << 20),
        preflight=PreflightSection(),
        launch=LaunchSection(
            num_nodes=2,
            nproc_per_node=1,
            command=(
                "python", "-m", "components.trainer",
                "--steps", "100", "--layers", "4", "--width", "128", "--batch", "8",
            ),
            limits=Limits(run=2 * HOUR, no_progress=5 * MINUTE),
        ),
        checkpoint=CheckpointSection(every_steps=25),
        retain=RetainSection(keep_last=2, keep_best=KeepBest()),
    )  # fmt: skip


def smoke() -> TrainConfig:
    """The whole pipeline in seconds: a few steps of a very small model, 1 node of 2 ranks."""
    return TrainConfig(
        experiment="smoke",
        shard=ShardSection(corpus="python:stdlib", sequence_length=64, over_long="truncate", num_tasks=2),
        launch=LaunchSection(
            num_nodes=1,
            nproc_per_node=2,
            command=(
                "python", "-m", "components.trainer",
                "--steps", "6", "--layers", "1", "--width", "32", "--batch", "4",
            ),
            limits=Limits(start=5 * MINUTE, run=10 * MINUTE, no_progress=2 * MINUTE, stop=30.0),
            max_restarts=1,
        ),
        checkpoint=CheckpointSection(every_steps=3),
        retain=RetainSection(keep_last=2),
    )  # fmt: skip


def torchrun_node() -> TrainConfig:
    """A program that brings its own starter: torchrun once a node, rendezvous from the PET_ variables, 2 x 2 ranks."""
    return TrainConfig(
        experiment="torchrun-node",
        shard=ShardSection(corpus="python:stdlib", sequence_length=128, over_long="split", target_shard_size=8 << 20),
        launch=LaunchSection(
            num_nodes=2,
            nproc_per_node=2,
            start="node",
            command=(
                "torchrun", "-m", "components.trainer",
                "--steps", "20", "--layers", "2", "--width", "64", "--batch", "8",
            ),
            limits=Limits(run=2 * HOUR, no_progress=5 * MINUTE),
        ),
        checkpoint=CheckpointSection(every_steps=10),
        retain=RetainSection(keep_last=2),
    )  # fmt: skip


RECIPES: dict[str, Callable[[], TrainConfig]] = {"tiny": tiny, "smoke": smoke, "torchrun-node": torchrun_node}


def find_recipe(name: str | None = None) -> tuple[str, TrainConfig]:
    """The recipe's name and description; the default one without a name. Raises BadInput for an unknown name."""
    chosen = name or DEFAULT_RECIPE
    if chosen not in RECIPES:
        import difflib

        near = difflib.get_close_matches(chosen, RECIPES, n=1)
        fix = f"did you mean {near[0]}?" if near else f"choose one of {', '.join(RECIPES)}"
        raise BadInput("UnknownRecipe", f"there is no recipe {chosen!r}", fix)
    return chosen, RECIPES[chosen]()


def summary(name: str) -> str:
    """What a recipe is for, in a line."""
    return inspect.getdoc(RECIPES[name]) or ""
