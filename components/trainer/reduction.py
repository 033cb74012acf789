"""Sums gradients over the ranks in a fixed order, so that a resumed run repeats an untouched one bit for bit.

DDP regroups its buckets after the first step, and an all-reduce adds in an order that depends on where in its bucket a
value lies. A resumed process starts with the first grouping again, so its sums differ in the last digits. Here every
value is added in the order of ranks, whatever bucket it is in: rank r collects slice r of the bucket from everybody,
adds the slices up, and hands the sum to all. That moves as many bytes as a ring all-reduce.
"""

import time

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import GradBucket


class OrderedSum:
    """`hook` is a DDP communication hook; `take_seconds` tells the time spent in it since the last call.

    It waits for each bucket instead of overlapping with the backward pass: collectives started from several callbacks
    would reach the ranks in different orders. On a CPU there is nothing to gain from overlapping.
    """

    def __init__(self, world_size: int) -> None:
        self._world_size = world_size
        self._seconds = 0.0

    def hook(self, state: object, bucket: GradBucket) -> torch.futures.Future[Tensor]:
        started = time.perf_counter()
        done: torch.futures.Future[Tensor] = torch.futures.Future()
        done.set_result(ordered_sum(bucket.buffer(), self._world_size))
        self._seconds += time.perf_counter() - started
        return done

    def take_seconds(self) -> float:
        seconds, self._seconds = self._seconds, 0.0
        return seconds


def ordered_sum(local: Tensor, world_size: int) -> Tensor:
    """The sum over the ranks of their `local` (flat, same length everywhere), each value added in rank order."""
    if world_size == 1:
        return local
    share = -(-local.numel() // world_size)
    padded = local.new_zeros(share * world_size)
    padded[: local.numel()] = local
    received = torch.empty_like(padded)
    dist.all_to_all_single(received, padded)
    parts = received.view(world_size, share)
    mine = parts[0].clone()
    for part in parts[1:]:
        mine += part
    dist.all_gather_into_tensor(padded, mine)
    return padded[: local.numel()]
