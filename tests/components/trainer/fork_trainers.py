"""`fork_trainers.py N OUTPUTS -- ARGUMENTS`: the trainer on N ranks, forked from one process that imported torch once.

Each rank is a process of its own with the environment torchrun would give it; only the seconds of importing are shared.
Exits with the first code that is not 0.
"""

import os
import sys
from pathlib import Path

import torch._dynamo  # what building DDP imports

from components.trainer.__main__ import leave, main
from components.trainer.train import train

assert torch._dynamo
assert train


def run(rank: int, outputs: Path, arguments: list[str]) -> None:
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), ARGOSY_PROGRESS=str(outputs / f"progress-{rank}"))
    output = os.open(outputs / f"output-{rank}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.argv = ["trainer", *arguments]
    leave(main())


if __name__ == "__main__":
    world_size, outputs = int(sys.argv[1]), Path(sys.argv[2])
    os.environ["WORLD_SIZE"] = os.environ["LOCAL_WORLD_SIZE"] = sys.argv[1]
    children = []
    for rank in range(world_size):
        child = os.fork()
        if child == 0:
            run(rank, outputs, sys.argv[4:])
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    sys.exit(next((code for code in codes if code), 0))
