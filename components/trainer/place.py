"""Where this rank computes, and how it meets the others: device, determinism, process group."""

import os

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import HashStore

from components.trainer.arguments import Arguments, Unusable
from components.trainer.worker import Worker


def choose_device(arguments: Arguments, worker: Worker) -> torch.device:
    """The device of this rank. `auto` takes CUDA only when every rank of the node gets a GPU of its own.

    Raises Unusable when CUDA is demanded and there are not enough GPUs.
    """
    num_gpus = 0 if arguments.device == "cpu" or not torch.cuda.is_available() else torch.cuda.device_count()
    if num_gpus >= worker.local_world_size:
        return torch.device("cuda", worker.local_rank)
    if arguments.device == "cuda":
        raise Unusable(
            f"--device cuda: {num_gpus} GPUs for {worker.local_world_size} ranks on this node; "
            "start fewer ranks, or use --device auto"
        )
    return torch.device("cpu")


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


def join(worker: Worker, device: torch.device) -> None:
    """Meet the other ranks (nccl on CUDA, gloo otherwise)."""
    backend = "nccl" if device.type == "cuda" else "gloo"
    device_id = device if device.type == "cuda" else None
    if worker.world_size == 1:
        store = HashStore()  # alone there is nobody to meet, so no port is needed
        dist.init_process_group(backend, store=store, rank=0, world_size=1, device_id=device_id)
    else:
        dist.init_process_group(backend, rank=worker.rank, world_size=worker.world_size, device_id=device_id)
