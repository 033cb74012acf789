"""Programs as PyTorch's documentation writes them run unchanged."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.components.agent.gang import Gang

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(sys.platform != "linux", reason="a gang's processes are kept together by Linux"),
]

# After "Getting Started with Distributed Data Parallel" of PyTorch's tutorials, initialised with torchrun.
TUTORIAL = """
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.optim as optim
from torch.nn.parallel import DistributedDataParallel as DDP

class ToyModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.net1 = nn.Linear(10, 10)
        self.relu = nn.ReLU()
        self.net2 = nn.Linear(10, 5)

    def forward(self, x):
        return self.net2(self.relu(self.net1(x)))

def demo_basic():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    print(f"Start running basic DDP example on rank {rank}.")
    ddp_model = DDP(ToyModel())
    loss_fn = nn.MSELoss()
    optimizer = optim.SGD(ddp_model.parameters(), lr=0.001)
    optimizer.zero_grad()
    outputs = ddp_model(torch.randn(20, 10))
    labels = torch.randn(20, 5)
    loss_fn(outputs, labels).backward()
    optimizer.step()
    dist.destroy_process_group()
    print(f"Finished running basic DDP example on rank {rank}.")

if __name__ == "__main__":
    demo_basic()
"""


@pytest.mark.parametrize("start", ["rank", "node"])
def test_the_ddp_tutorial_runs_unchanged(new_gang: Callable[..., Gang], tmp_path: Path, start: str) -> None:
    pytest.importorskip("torch")
    script = tmp_path / "script.py"
    script.write_text(TUTORIAL)
    launcher = ["-m", "torch.distributed.run"] if start == "node" else []
    gang = new_gang([sys.executable, *launcher, str(script)], start=start, limits={"run_seconds": 200.0}).start()
    assert gang.wait(200) == [0, 0]
    for rank in (0, 1):
        # The last two only: gloo may abort an interpreter that is leaving, which costs a restart.
        said = [line for line in gang.messages(rank, rank) if "basic DDP example" in line]
        assert said[-2:] == [
            f"Start running basic DDP example on rank {rank}.",
            f"Finished running basic DDP example on rank {rank}.",
        ]
