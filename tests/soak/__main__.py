"""`make soak`: the proofs of the checkpoint protocol and of packing at length; seeds and counts. Exit 1 if one fails.

python -m tests.soak [--seed N] [--schedules N] [--kills N] [--skip-s3] [--skip-models]
"""

import argparse
import multiprocessing
import os
import secrets
import sys
import tempfile
import time
from pathlib import Path

from components.storage.local import LocalStore
from tests.components.ledger.schedules import run_part
from tests.components.retain.killing import Mortals, run_rounds
from tests.components.shard.killing import kill_packers
from tests.fakes.s3_server import S3Server
from tests.model.bounds import LARGE, SMALL
from tests.model.explore import explore

SCHEDULES_EACH = 5000
ROUNDS_EACH = 10


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 40), help="of everything; by default random")
    parser.add_argument("--schedules", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=200, help="on disk, and as many on S3; of packers a format")
    parser.add_argument("--skip-s3", action="store_true")
    parser.add_argument("--skip-models", action="store_true")
    arguments = parser.parse_args(argv)
    print(f"seed {arguments.seed}", flush=True)
    began = time.monotonic()
    try:
        if not arguments.skip_models:
            _search_models()
        _run_schedules(arguments.seed, arguments.schedules)
        _kill(arguments.seed, arguments.kills, with_s3=not arguments.skip_s3)
        kill_packers(seed=arguments.seed, num_kills=arguments.kills, with_s3=not arguments.skip_s3)
    except AssertionError as error:
        print(f"VIOLATED: {error}", file=sys.stderr)
        return 1
    print(f"nothing violated in {time.monotonic() - began:.0f} s")
    return 0


def _search_models() -> None:
    for name, model in {**SMALL, **LARGE}.items():
        result = explore(model.start(), model.steps, model.violation, max_states=5_000_000)
        assert result.violation == "", f"{name}: {result.violation}: {'; '.join(result.steps)}"
        print(f"model: {result.num_states} states, all of them: {name}", flush=True)


def _run_schedules(seed: int, num_schedules: int) -> None:
    parts = [
        (seed + first, min(SCHEDULES_EACH, num_schedules - first)) for first in range(0, num_schedules, SCHEDULES_EACH)
    ]
    done = 0
    with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
        for size in pool.imap_unordered(run_part, parts):
            done += size
            if done % 50_000 == 0 or done == num_schedules:
                print(f"schedules: {done} of {num_schedules}, seeds {seed} to {seed + num_schedules - 1}", flush=True)


def _kill(seed: int, num_kills: int, *, with_s3: bool) -> None:
    for number in range(0, num_kills, ROUNDS_EACH):
        rounds = min(ROUNDS_EACH, num_kills - number)
        with tempfile.TemporaryDirectory() as name, Mortals(Path(name)) as mortals:
            ledger = run_rounds(mortals, LocalStore(Path(name, "storage")), seed=seed + number, num_rounds=rounds)
        print(f"kill -9 on disk: {number + rounds} of {num_kills}, {len(ledger.state().checkpoints)} checkpoints")
    if not with_s3:
        return
    with tempfile.TemporaryDirectory() as folder:
        server = S3Server(Path(folder))
        try:
            for number in range(0, num_kills, ROUNDS_EACH):
                rounds = min(ROUNDS_EACH, num_kills - number)
                with tempfile.TemporaryDirectory() as name, Mortals(Path(name), server.environment) as mortals:
                    ledger = run_rounds(mortals, server.new_store(), seed=seed + number, num_rounds=rounds)
                print(f"kill -9 on S3: {number + rounds} of {num_kills}, {len(ledger.state().checkpoints)} checkpoints")
        finally:
            server.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
