"""Where this rank computes, and how it meets the others: device, determinism, process group."""

import os
from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import HashStore, PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from components.trainer.arguments import Arguments
from components.trainer.endings import Unusable
from components.trainer.worker import Worker

_CPU = "cpu"


def join(arguments: Arguments, worker: Worker) -> torch.device:
    """Meet the other ranks and return this one's device: CUDA with nccl, or the CPU with gloo for all of them.

    Raises Unusable when CUDA is demanded and not every rank has a GPU of its own.
    """
    store = _meet(worker)
    mine = gpu_of(arguments, worker)
    fault = _agree(store, worker, mine)
    if fault and arguments.device == "cuda":
        raise Unusable(f"--device cuda: {fault}; start fewer ranks, or use --device auto")
    if fault and mine != _CPU and worker.is_first:
        print(f"training on the CPU: {fault}", flush=True)
    device = torch.device("cpu") if fault else torch.device("cuda", worker.local_rank)
    dist.init_process_group(
        "gloo" if fault else "nccl", store=store, rank=worker.rank, world_size=worker.world_size,
        device_id=None if fault else device,
    )  # fmt: skip
    return device


def gpu_of(arguments: Arguments, worker: Worker) -> str:
    """Names the GPU this rank would take, alike wherever it is asked; `cpu` when there is none for it."""
    if arguments.device == "cpu" or not torch.cuda.is_available() or torch.cuda.device_count() <= worker.local_rank:
        return _CPU
    return str(torch.cuda.get_device_properties(worker.local_rank).uuid)


def why_not_cuda(gpus: Sequence[str]) -> str:
    """Why ranks with these GPUs (in rank order) cannot use nccl; empty when they can.

    nccl refuses two ranks on one GPU. Two nodes that are agents of one machine with one GPU come to that.
    """
    if _CPU in gpus:
        return f"{list(gpus).count(_CPU)} of {len(gpus)} ranks have no GPU"
    for rank, gpu in enumerate(gpus):
        if gpus.index(gpu) != rank:
            return f"ranks {gpus.index(gpu)} and {rank} would share one GPU"
    return ""


def make_deterministic(arguments: Arguments, worker: Worker, device: torch.device) -> None:
    """Make the same run give the same bits: fixed seeds, threads and kernels."""
    torch.manual_seed(worker.seed)
    torch.set_num_threads(arguments.threads)  # how a sum is split over threads decides its last digits
    if device.type == "cuda":
        torch.cuda.set_device(device)
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        # Their backward passes add in whatever order blocks finish; the plain kernel does not.
        torch.backends.cuda.enable_flash_sdp(False)
        torch.backends.cuda.enable_mem_efficient_sdp(False)
        torch.backends.cuda.enable_cudnn_sdp(False)
    torch.use_deterministic_algorithms(True)  # its import of the compiler stack is no extra cost: DDP makes it too


def _meet(worker: Worker) -> Store:
    """The store all ranks share; it honours torchrun's own (TORCHELASTIC_USE_AGENT_STORE)."""
    if worker.world_size == 1:
        return HashStore()  # alone there is nobody to meet, so no port is needed
    store: Store = next(rendezvous("env://", worker.rank, worker.world_size))[0]
    return store


def _agree(store: Store, worker: Worker, mine: str) -> str:
    """Why the ranks cannot use CUDA; the same answer on all of them, given by the first."""
    agreement = PrefixStore("trainer-device", store)
    agreement.set(str(worker.rank), mine)
    if worker.is_first:
        gpus = [agreement.get(str(rank)).decode() for rank in range(worker.world_size)]
        agreement.set("fault", why_not_cuda(gpus) or "none")
    fault = agreement.get("fault").decode()
    return "" if fault == "none" else fault
