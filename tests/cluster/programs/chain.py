"""A training program for any image with python3: each step's loss follows from the step before. Standard library only.

    chain.py --steps 20 [--seconds 0.2] [--more 20] [--exit-at 5 --code 3]

Travels inside the run description (`python3 -c`), so it is short. Ranks meet at every step, as in a collective; a rank
whose peers are gone ends. Rank 0 saves, also when it is told to stop; a rank that resumes proves that the state it
found is the right one.
"""

import argparse
import hashlib
import json
import os
import signal
import socket
import struct
import sys
import time


def advance(state: str, step: int) -> str:
    return hashlib.sha256(f"{state} {step}".encode()).hexdigest()


def chain(seed: int, step: int) -> str:
    """The state after `step` steps."""
    state = f"seed {seed}"
    for number in range(1, step + 1):
        state = advance(state, number)
    return state


def loss_of(state: str) -> float:
    return int(state[:13], 16) / 2**52


def meet(rank: int, world_size: int) -> "list[socket.socket]":
    address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    if rank == 0:
        with socket.create_server(("", address[1])) as server:
            return [server.accept()[0] for _ in range(world_size - 1)]
    while True:
        try:
            return [socket.create_connection(address)]
        except OSError:
            time.sleep(0.1)


def arrive(rank: int, peers: "list[socket.socket]") -> None:
    for peer in peers:
        if rank:
            peer.sendall(b".")
        if not peer.recv(1):
            sys.exit("a peer is gone")
    for peer in peers if rank == 0 else ():
        peer.sendall(b".")


def save(folder: str, step: int, state: str) -> None:
    os.mkdir(folder)
    header = json.dumps({"weights": {"dtype": "U8", "shape": [65536], "data_offsets": [0, 65536]}})
    tensor = hashlib.shake_128(state.encode()).digest(65536)
    with open(f"{folder}/model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header.encode() + tensor)
    with open(f"{folder}/state.json", "w") as text:
        json.dump({"step": step, "state": state}, text)
    open(f"{folder}/READY", "w").close()


def report(**fields: object) -> None:
    with open(os.environ["ARGOSY_PROGRESS"], "a") as progress:
        progress.write(json.dumps(fields) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=0.2)
    parser.add_argument("--more", type=int, default=0, help="once resumed: only so many steps more")
    parser.add_argument("--exit-at", type=int, default=0)
    parser.add_argument("--code", type=int, default=3)
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # comes with the file of ARGOSY_STOP, at which rank 0 saves
    rank, seed = int(os.environ["RANK"]), int(os.environ["ARGOSY_SEED"])
    every = int(os.environ.get("ARGOSY_CHECKPOINT_EVERY_STEPS") or 10**9)
    step, folder = 0, os.environ["ARGOSY_RESUME"]
    state = chain(seed, 0)
    if folder:
        with open(f"{folder}/state.json") as file:
            found = json.load(file)
        step, state = found["step"], found["state"]
        if state != chain(seed, step):
            sys.exit(f"{folder} is not what step {step} left")
        arguments.steps = step + arguments.more if arguments.more else arguments.steps
    print(f"rank {rank} begins after step {step}", flush=True)
    report(total_steps=arguments.steps)
    peers = meet(rank, int(os.environ["WORLD_SIZE"]))
    while step < arguments.steps:
        time.sleep(arguments.seconds)
        if step + 1 == arguments.exit_at and rank == int(os.environ["WORLD_SIZE"]) - 1:
            print("this rank was told to fail", file=sys.stderr, flush=True)
            return arguments.code
        arrive(rank, peers)
        step, state = step + 1, advance(state, step + 1)
        report(step=step, loss=loss_of(state), total_steps=arguments.steps)
        is_stopping = rank == 0 and os.path.exists(os.environ["ARGOSY_STOP"])
        if rank == 0 and (step % every == 0 or is_stopping or step == arguments.steps):
            save(f"{os.environ['ARGOSY_CHECKPOINTS']}/step-{step}", step, state)
        if is_stopping:
            break
    print(f"rank {rank} ends after step {step}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
