"""Loads a checkpoint as a training program would, and tells what failed. Runs alone: torch and the standard library.

    python -I load_check.py FOLDER MEMORY_BYTES FILE...      prints one JSON line {"failed": {file: why}, ...}

The caller has checked the bytes; this process is the only place where torch reads them. It gives its network away,
limits its memory, and loads with `weights_only`.
"""

import contextlib
import ctypes
import json
import os
import sys
from typing import Any, Dict, List  # noqa: UP035 - runs on whatever Python the training environment has

NO_TORCH, NO_MEMORY = 3, 4
_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000
_BATCH_BYTES = 1 << 30


def main(argv: List[str]) -> int:  # noqa: UP006
    folder, memory_bytes, files = argv[0], int(argv[1]), argv[2:]
    with contextlib.suppress(OSError, AttributeError):  # a machine may forbid it: then the network stays
        ctypes.CDLL(None).unshare(_NEW_USER | _NEW_NETWORK)
    try:
        import torch
    except ImportError as error:
        print(error, file=sys.stderr)
        return NO_TORCH
    _limit(memory_bytes)
    failed: Dict[str, str] = {}  # noqa: UP006
    skipped: Dict[str, str] = {}  # noqa: UP006
    num_tensors = 0
    for name in files:
        path = os.path.join(folder, name)
        try:
            if os.path.basename(name) == ".metadata":
                num_tensors += _load_distributed(torch, os.path.dirname(path))
            elif name.endswith(".safetensors"):
                num_tensors += _load_safetensors(path)
            else:
                num_tensors += _load_torch(torch, path)
        except MemoryError:
            return NO_MEMORY
        except BaseException as error:  # CheckpointException derives from BaseException
            text = f"{type(error).__name__}: {error}".split("\n")[0][:500]
            if "allocate memory" in str(error):
                return NO_MEMORY
            (skipped if "Unsupported global" in str(error) else failed)[name] = text
    print(json.dumps({"failed": failed, "skipped": skipped, "num_tensors": num_tensors}))
    return 0


def _limit(memory_bytes: int) -> None:
    import resource

    with open("/proc/self/status") as status:
        used = next((int(line.split()[1]) << 10 for line in status if line.startswith("VmData")), 0)
    resource.setrlimit(resource.RLIMIT_DATA, (used + memory_bytes, used + memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _load_torch(torch: Any, path: str) -> int:
    try:
        value = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except (RuntimeError, TypeError):  # no zip, or a torch that cannot map it
        value = torch.load(path, map_location="cpu", weights_only=True)
    return _count(torch, value)


def _count(torch: Any, value: Any) -> int:
    count, pending = 0, [value]
    seen = set()
    while pending:
        item = pending.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, torch.Tensor):
            count += 1
        elif isinstance(item, dict):
            pending += item.values()
        elif isinstance(item, (list, tuple)):
            pending += item
    return count


def _load_safetensors(path: str) -> int:
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        names = list(file.keys())
        for name in names:
            file.get_tensor(name)
    return len(names)


def _load_distributed(torch: Any, folder: str) -> int:
    import importlib

    dcp: Any = importlib.import_module("torch.distributed.checkpoint")
    metadata = dcp.FileSystemReader(folder).read_metadata()
    batch: Dict[str, Any] = {}  # noqa: UP006
    size, count = 0, 0
    for name, entry in metadata.state_dict_metadata.items():
        if not isinstance(entry, dcp.metadata.TensorStorageMetadata):
            continue  # an object: only a full unpickling would load it
        batch[name] = torch.empty(entry.size, dtype=entry.properties.dtype)
        size += batch[name].numel() * batch[name].element_size()
        count += 1
        if size >= _BATCH_BYTES:
            _fill(dcp, folder, batch)
            batch, size = {}, 0
    if batch:
        _fill(dcp, folder, batch)
    return count


def _fill(dcp: Any, folder: str, batch: Any) -> None:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says that there is no process group, which is the point
        dcp.load(batch, storage_reader=dcp.FileSystemReader(folder), no_dist=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
