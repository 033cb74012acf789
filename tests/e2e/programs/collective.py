"""Ranks that wait for each other in gloo for ever, deaf to SIGTERM: rank 0 waits for the last one, which sleeps."""

import json
import os
import signal
import time

import torch
import torch.distributed as dist


def main() -> None:
    # Python runs a handler between its own instructions only; inside a collective there are none.
    signal.signal(signal.SIGTERM, lambda *_: None)
    dist.init_process_group("gloo")
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    dist.barrier()
    with open(os.environ["ARGOSY_PROGRESS"], "a") as progress:
        progress.write(json.dumps({"step": 1, "loss": 1.0}) + "\n")
    if rank == last:
        while True:
            time.sleep(1)
    dist.recv(torch.zeros(1), src=last)


if __name__ == "__main__":
    main()
