"""The trainer's command line: every argument with its range, all faults told at once."""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from components.trainer.endings import BAD_INPUT


@dataclass(frozen=True)
class Arguments:
    """What to train, and how."""

    steps: int
    layers: int
    width: int
    heads: int
    batch: int
    lr: float
    warmup: int
    weight_decay: float
    clip: float
    dropout: float
    device: str
    threads: int
    log_every: int


def parse(argv: Sequence[str]) -> Arguments:
    """The arguments, checked. Exits with 78 and every fault on stderr."""
    parser = _parser()
    arguments = Arguments(**vars(parser.parse_args(argv)))
    faults = _faults(arguments)
    if faults:
        parser.error("\n  ".join(["these arguments cannot be used:", *faults]) if len(faults) > 1 else faults[0])
    return arguments


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: {message}", file=sys.stderr)
        sys.exit(BAD_INPUT)


def _parser() -> _Parser:
    parser = _Parser(
        prog="python -m components.trainer",
        allow_abbrev=False,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        description="Train a small decoder-only transformer on a packed data set. Takes torchrun's variables and "
        "Argosy's (ARGOSY_DATA, ARGOSY_RESUME, ARGOSY_CHECKPOINTS, ...) from the environment.",
    )
    whole, positive, fraction = _at_least(1, int), _at_least(0, float), _at_least(0, float)
    parser.add_argument("--steps", type=whole, required=True, help="optimizer steps of the whole training")
    parser.add_argument("--layers", type=whole, default=4, help="transformer blocks")
    parser.add_argument("--width", type=whole, default=128, help="model width")
    parser.add_argument("--heads", type=whole, default=4, help="attention heads; must divide the width")
    parser.add_argument("--batch", type=whole, default=4, help="sequences a rank takes in each step")
    parser.add_argument("--lr", type=positive, default=4e-3, help="peak learning rate")
    parser.add_argument("--warmup", type=_at_least(0, int), default=10, help="steps of linear warm-up")
    parser.add_argument("--weight-decay", type=positive, default=0.1, help="decay of matrices, not of vectors")
    parser.add_argument("--clip", type=positive, default=1.0, help="largest norm of the gradient; 0: no limit")
    parser.add_argument("--dropout", type=fraction, default=0.0, help="share of activations dropped, below 1")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="auto: cuda when it is there")
    parser.add_argument("--threads", type=whole, default=1, help="CPU threads a rank; part of what fixes the result")
    parser.add_argument("--log-every", type=whole, default=10, help="steps between lines on stdout")
    return parser


def _at_least(least: int, kind: type[int] | type[float]) -> Callable[[str], int | float]:
    def convert(text: str) -> int | float:
        try:
            value = kind(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a{'n integer' if kind is int else ' number'}") from None
        if not least <= value < float("inf"):
            raise argparse.ArgumentTypeError(f"{text} is out of range: at least {least}")
        return value

    return convert


def _faults(arguments: Arguments) -> list[str]:
    faults = []
    if arguments.width % arguments.heads:
        faults.append(f"--width {arguments.width} is not a multiple of --heads {arguments.heads}")
    if not arguments.lr > 0:
        faults.append("--lr 0 would learn nothing: choose a positive rate, for example 3e-3")
    if arguments.dropout >= 1:
        faults.append(f"--dropout {arguments.dropout:g} drops everything: choose a share below 1")
    return faults
