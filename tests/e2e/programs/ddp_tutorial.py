"""A script of the kind PyTorch's DDP tutorial shows for torchrun; it knows nothing about Argosy."""

import os

import torch
import torch.distributed as dist
from torch import nn, optim
from torch.nn.parallel import DistributedDataParallel


class ToyModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net1 = nn.Linear(10, 10)
        self.relu = nn.ReLU()
        self.net2 = nn.Linear(10, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net2(self.relu(self.net1(x)))


def demo_basic() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    print(
        f"Start running basic DDP example on rank {rank} of {dist.get_world_size()}, local {os.environ['LOCAL_RANK']}."
    )

    model = DistributedDataParallel(ToyModel())
    loss_fn = nn.MSELoss()
    optimizer = optim.SGD(model.parameters(), lr=0.001)
    for _ in range(5):
        optimizer.zero_grad()
        outputs = model(torch.randn(20, 10))
        loss_fn(outputs, torch.randn(20, 5)).backward()
        optimizer.step()

    dist.destroy_process_group()
    print(f"Finished running basic DDP example on rank {rank}.")


if __name__ == "__main__":
    demo_basic()
