"""What committing adds to training: one run that saves every few seconds, every other save with its READY mark.

Both kinds of stretches write the same files and compute the same; only after a READY mark does the agent hash, publish
and commit, and verify and retain run beside the rank. Stretches take turns, so that other load on the machine counts
for both.
"""

import json
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.measure import Figure
from tests.e2e.harness import LocalRun

NUM_PAIRS, STRETCH_SECONDS, SAVED_BYTES = 8, 5.0, 48 << 20

PROGRAM = """
import json, os, sys, time
from pathlib import Path
import numpy
from safetensors.numpy import save_file

num_stretches, seconds, size = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
rng = numpy.random.default_rng(1)
weights = rng.standard_normal(size // 4, dtype=numpy.float32)
left, right = (rng.standard_normal((384, 384), dtype=numpy.float32) for _ in range(2))
step, told = 0, []
for stretch in range(num_stretches):
    folder = Path(os.environ["ARGOSY_CHECKPOINTS"], f"step-{step}")
    folder.mkdir()
    save_file({"weights": weights}, folder / "model.safetensors")
    if stretch % 2:
        (folder / "READY").touch()
    took, until = [], time.perf_counter() + seconds
    while time.perf_counter() < until:
        began = time.perf_counter()
        for _ in range(8):
            left @ right
        took.append(time.perf_counter() - began)
    told.append(sum(took) / len(took))
    step += 1
    with open(os.environ["ARGOSY_PROGRESS"], "a") as file:
        file.write(json.dumps({"step": step, "loss": 1.0, "total_steps": num_stretches}) + "\\n")
Path(sys.argv[4]).write_text(json.dumps(told))
"""


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        steps = _step_seconds(Path(folder))
    pairs = [committing / plain for plain, committing in zip(steps[2::2], steps[3::2], strict=True)]
    mib_a_second = (SAVED_BYTES >> 20) / STRETCH_SECONDS
    yield Figure(
        f"mean step while {mib_a_second:.0f} MiB/s are committed / not", statistics.median(pairs), "ratio", 1.01
    )
    yield Figure("the same of the worst pair of stretches", max(pairs), "ratio")
    again = [later / earlier for earlier, later in zip(steps[2::2], steps[4::2], strict=False)]
    yield Figure("two stretches without a commit, later / earlier", statistics.median(again), "ratio")


def _step_seconds(home: Path) -> list[float]:
    """Mean step time of each stretch, without and with a commit by turns; the first two warm everything up."""
    (home / "corpus").mkdir()
    (home / "corpus" / "0.txt").write_text("the quick brown fox jumps over the lazy dog. " * 60)
    (home / "program.py").write_text(PROGRAM)
    numbers = [str(2 * NUM_PAIRS + 2), str(STRETCH_SECONDS), str(SAVED_BYTES)]
    command = [sys.executable, str(home / "program.py"), *numbers, str(home / "told.json")]
    (home / "run.yaml").write_text(f"""
experiment: committing
shard: {{corpus: corpus, sequence_length: 64, over_long: split, num_tasks: 1}}
launch: {{num_nodes: 1, nproc_per_node: 1, command: {command!r}, env: {{OPENBLAS_NUM_THREADS: "1"}}}}
checkpoint: {{every_steps: 1}}
retain: {{keep_last: 2}}
""")
    run = LocalRun(home)
    run.start("submit", "-c", "run.yaml")
    if run.finish() != 0:
        raise SystemExit(f"the run failed:\n{run.terminal()[-2000:]}")
    told: list[float] = json.loads((home / "told.json").read_text())
    return told
