"""Writes the sound checkpoints beside this file with the real libraries: torch, safetensors, two gloo ranks.

    python tests/sound/make_sound.py [folder]

They are checked in, so that tests need no torch; another torch writes other bytes, and those must verify too.
"""

import hashlib
import json
import os
import shutil
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from safetensors.torch import save_file
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

HERE = Path(__file__).parent


def state() -> dict[str, torch.Tensor]:
    weight = torch.arange(12, dtype=torch.float32).reshape(4, 3)
    return {"layer.weight": weight, "layer.bias": torch.ones(4, dtype=torch.bfloat16), "count": torch.arange(3)}


def write_torch(folder: Path) -> None:
    model = state()
    shared = torch.arange(8, dtype=torch.float32)
    extra = {
        "tied": model["layer.weight"], "part": shared[2:5], "slice": shared[::2], "empty": torch.zeros(0, 3),
        "f8": torch.ones(3).to(torch.float8_e4m3fn), "parameter": torch.nn.Parameter(torch.ones(2)),
    }  # fmt: skip
    torch.save({"model": model, "extra": extra, "step": 300, "args": Namespace(lr=0.1)}, folder / "model.pt")


def write_lightning(folder: Path) -> None:
    value = {
        "epoch": 0, "global_step": 300, "pytorch-lightning_version": "2.5.0", "state_dict": state(), "loops": {},
        "optimizer_states": [{"state": {0: {"step": torch.tensor(300.0), "exp_avg": torch.zeros(4, 3)}}}],
    }  # fmt: skip
    torch.save(value, folder / "epoch=0-step=300.ckpt")


def write_trainer(folder: Path) -> None:
    folder /= "checkpoint-300"
    folder.mkdir()
    tensors = state()
    shards = {
        "model-00001-of-00002.safetensors": ["layer.weight"],
        "model-00002-of-00002.safetensors": ["layer.bias", "count"],
    }
    for file, names in shards.items():
        save_file({name: tensors[name] for name in names}, folder / file, metadata={"format": "pt"})
    total = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
    weight_map = {name: file for file, names in shards.items() for name in names}
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2))
    torch.save({"state": {0: {"exp_avg": torch.zeros(4, 3)}}, "param_groups": [{"lr": 0.1}]}, folder / "optimizer.pt")
    torch.save({"last_epoch": 3}, folder / "scheduler.pt")
    torch.save({"python": (3, (1, 2), None), "cpu": torch.zeros(16, dtype=torch.uint8)}, folder / "rng_state.pth")
    trainer = {"global_step": 300, "log_history": [{"loss": 2.5, "step": 300}, {"eval_loss": 2.4, "step": 300}]}
    (folder / "trainer_state.json").write_text(json.dumps(trainer))


def write_torchtitan(folder: Path) -> None:
    mp.spawn(_rank, args=(str(folder), "step-300"), nprocs=2)


def _rank(rank: int, folder: str, name: str) -> None:
    os.chdir(folder)  # the path that was saved to stands in `.metadata`
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": os.environ.get("MASTER_PORT", "29581")}
    dist.init_process_group("gloo", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    sharded: dict[str, Any] = {name: distribute_tensor(tensor, mesh, [Shard(0)]) for name, tensor in state().items()}
    dcp.save({"model": sharded, "train_state": {"step": 300}}, checkpoint_id=name)
    dist.destroy_process_group()


def write_megatron(folder: Path) -> None:
    path = shutil.copytree(folder.parent / "torchtitan" / "step-300", folder / "iter_0000300")
    torch.save(
        {"iteration": 300, "args": Namespace(lr=0.1), "rng": torch.zeros(4, dtype=torch.uint8)}, path / "common.pt"
    )
    (path / "metadata.json").write_text(json.dumps({"sharded_backend": "torch_dist", "sharded_backend_version": 1}))
    files = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(path.iterdir())}
    (path / "integrity.json").write_text(json.dumps({"algorithm": "sha256", "files": files}, indent=1))


def main(root: Path) -> None:
    writers = {
        "torch": write_torch, "lightning": write_lightning, "hf-trainer": write_trainer,
        "torchtitan": write_torchtitan, "megatron": write_megatron,
    }  # fmt: skip
    for name, write in writers.items():
        shutil.rmtree(root / name, ignore_errors=True)
        (root / name).mkdir(parents=True)
        write(root / name)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
