"""`make soak`: the proofs of the checkpoint protocol and of packing at length; seeds and counts. Exit 1 if one fails.

python -m tests.soak [--seed N] [--schedules N] [--kills N] [--skip-s3] [--skip-models]
"""

import argparse
import contextlib
import multiprocessing
import os
import secrets
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from components.storage.base import ObjectStore
from components.storage.local import LocalStore
from tests.components.ledger.schedules import run_part
from tests.components.retain.killing import Mortals, run_rounds
from tests.components.shard.killing import kill_packers
from tests.fakes.s3_server import S3Server
from tests.model.bounds import LARGE, SMALL
from tests.model.explore import explore

SCHEDULES_EACH = 5000
ROUNDS_EACH = 5


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.soak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 40), help="of everything; by default random")
    parser.add_argument("--schedules", type=int, default=1_000_000)
    parser.add_argument(
        "--kills", type=int, default=200, help="on disk, and as many on S3; a format, a quarter of packers"
    )
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
        kill_packers(seed=arguments.seed, num_kills=arguments.kills // 4, with_s3=not arguments.skip_s3)
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


def _kill(seed: int, num_seeds: int, *, with_s3: bool) -> None:
    """On each store `num_seeds` storages, each with some rounds of writers and cleaners that all die."""
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        stores: dict[str, Callable[[], ObjectStore]] = {
            "disk": lambda: LocalStore(Path(name, f"storage-{secrets.token_hex(8)}"))
        }
        environment = {}
        if with_s3:
            server = S3Server(Path(name, "s3"))
            stack.callback(server.close)
            stores["S3"], environment = server.new_store, server.environment
        mortals = stack.enter_context(Mortals(Path(name), environment))
        for where, new_store in stores.items():
            found: Counter[str] = Counter()
            for number in range(num_seeds):
                state = run_rounds(mortals, new_store(), seed=seed + number, num_rounds=ROUNDS_EACH).state()
                found.update(entry.status for entry in state.checkpoints.values())
                found["terms"] += state.term
                if (number + 1) % 20 == 0 or number + 1 == num_seeds:
                    counts = ", ".join(f"{count} {what}" for what, count in sorted(found.items()))
                    print(
                        f"kill -9 on {where}: {number + 1} of {num_seeds} seeds from {seed}, {ROUNDS_EACH} rounds of"
                        f" three deaths each: {counts}", flush=True,
                    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
