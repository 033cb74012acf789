"""What a person waits for: help, validate, compile, and looking at a run with many log lines."""

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks.measure import ENTRY, ROOT, Figure, paired_cpu_ratio, python, wall_seconds

NUM_LOG_LINES = 10_000

ON_A_CLUSTER = [
    word for text in (
        "storage=s3://models/argosy", f"image=train@sha256:{'a' * 64}", f"platform_image=argosy@sha256:{'a' * 64}",
        "namespace=research", "gitops={schedules: ['@daily']}",
    ) for word in ("--set", text)
]  # fmt: skip

FINISHED_RUN = ["submit", "--recipe", "smoke", "--set", "checkpoint=none"]


def figures() -> Iterator[Figure]:
    yield Figure("--help, whole process", wall_seconds(python(ENTRY, "--help")), "s", 0.15)
    yield Figure("validate, whole process", wall_seconds(python(ENTRY, "validate")), "s", 0.35)
    ratio = paired_cpu_ratio(python(ENTRY, "compile"), python("-c", "import hera.workflows"))
    yield Figure("compile / import hera.workflows, CPU", ratio, "ratio", 1.15)
    renders = python(ENTRY, "compile", *ON_A_CLUSTER, "--as", "all")
    ratio = paired_cpu_ratio(renders, python(ENTRY, "compile", *ON_A_CLUSTER))
    yield Figure("compile --as all / compile, CPU", ratio, "ratio", 1.2)
    yield Figure("manifest of the default recipe", _manifest_bytes(num_tasks=4) / 1000, "kB", 30)
    grown = _manifest_bytes(num_tasks=999) - _manifest_bytes(num_tasks=100)
    yield Figure("manifest growth from 100 to 999 tasks", grown, "bytes", 0)
    with tempfile.TemporaryDirectory() as folder:
        yield from _looking_at_a_run(Path(folder))


def _manifest_bytes(*, num_tasks: int) -> int:
    argv = python(ENTRY, "compile", "--set", f"shard.num_tasks={num_tasks}")
    return len(subprocess.run(argv, capture_output=True, check=True).stdout)


def _looking_at_a_run(home: Path) -> Iterator[Figure]:
    env = {"ARGOSY_HOME": str(home)}
    lines = f"for i in range({NUM_LOG_LINES}): print('line', i, 'of a worker that talks a lot')"
    command = json.dumps(["python", "-c", lines])
    subprocess.run(
        python(ENTRY, *FINISHED_RUN, "--set", f"launch.command={command}"),
        env={**os.environ, **env}, cwd=ROOT, stdout=subprocess.DEVNULL, check=True,
    )  # fmt: skip
    yield Figure(
        f"status of a run with {NUM_LOG_LINES} log lines", wall_seconds(python(ENTRY, "status"), env=env), "s", 0.3
    )
    argv = python(ENTRY, "logs", "--stage", "launch", "--rank", "0")
    yield Figure(f"logs of a rank with {NUM_LOG_LINES} lines", wall_seconds(argv, env=env), "s", 0.3)
